// The module libeflops-verbs.so: device.hpp over libibverbs. Everything here is a translation; what to do
// about a failure is decided by who calls.
#include "transport/verbs/device.hpp"

#include <arpa/inet.h>
#include <eflops/eflops.h>
#include <fcntl.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#define EF_TEXT_OF(x) #x
#define EF_TEXT(x) EF_TEXT_OF(x)

namespace ef::verbs {
namespace {

static_assert(sizeof(gid_bytes) == sizeof(ibv_gid));

template <class T, int (*destroy)(T*)>
struct destroyer {
    void operator()(T* p) const noexcept { destroy(p); }
};
using context_ptr = std::unique_ptr<ibv_context, destroyer<ibv_context, ibv_close_device>>;
using pd_ptr = std::unique_ptr<ibv_pd, destroyer<ibv_pd, ibv_dealloc_pd>>;
using cq_ptr = std::unique_ptr<ibv_cq, destroyer<ibv_cq, ibv_destroy_cq>>;
using qp_ptr = std::unique_ptr<ibv_qp, destroyer<ibv_qp, ibv_destroy_qp>>;
using events_ptr =
    std::unique_ptr<ibv_comp_channel, destroyer<ibv_comp_channel, ibv_destroy_comp_channel>>;

int last_error() noexcept { return errno ? errno : EIO; }

bool never_blocks(int fd) noexcept {
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

ibv_mtu mtu_code(uint32_t bytes) noexcept {
    return bytes >= 4096   ? IBV_MTU_4096
           : bytes >= 2048 ? IBV_MTU_2048
           : bytes >= 1024 ? IBV_MTU_1024
           : bytes >= 512  ? IBV_MTU_512
                           : IBV_MTU_256;
}

ibv_wr_opcode code_of(opcode op) noexcept {
    switch (op) {
    case opcode::write:
        return IBV_WR_RDMA_WRITE;
    case opcode::write_imm:
        return IBV_WR_RDMA_WRITE_WITH_IMM;
    case opcode::read:
        return IBV_WR_RDMA_READ;
    case opcode::send_imm:
        return IBV_WR_SEND_WITH_IMM;
    case opcode::fetch_add:
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case opcode::compare_swap:
        return IBV_WR_ATOMIC_CMP_AND_SWP;
    default:
        return IBV_WR_SEND;
    }
}

opcode opcode_of(ibv_wc_opcode op) noexcept {
    switch (op) {
    case IBV_WC_RDMA_WRITE:
        return opcode::write;
    case IBV_WC_RDMA_READ:
        return opcode::read;
    case IBV_WC_COMP_SWAP:
        return opcode::compare_swap;
    case IBV_WC_FETCH_ADD:
        return opcode::fetch_add;
    case IBV_WC_RECV:
        return opcode::receive;
    case IBV_WC_RECV_RDMA_WITH_IMM:
        return opcode::receive_imm;
    default:
        return opcode::send;
    }
}

class real_queue_pair final : public queue_pair {
public:
    uint32_t number() const noexcept override { return qp_->qp_num; }
    uint32_t inline_bytes() const noexcept override { return inline_; }
    int event_fd() const noexcept override { return events_->fd; }

    failure make(ibv_pd* pd, const qp_depths& d, uint8_t port, uint8_t gid_index) noexcept {
        port_ = port;
        gid_index_ = gid_index;
        reads_ = uint8_t(d.reads);
        errno = 0;
        events_.reset(ibv_create_comp_channel(pd->context));
        if (!events_) return {last_error(), "ibv_create_comp_channel"};
        if (!never_blocks(events_->fd)) return {last_error(), "fcntl of the completion channel"};
        cq_.reset(ibv_create_cq(pd->context, int(d.send + d.receive), nullptr, events_.get(), 0));
        if (!cq_) return {last_error(), "ibv_create_cq"};
        ibv_qp_init_attr a{};
        a.send_cq = a.recv_cq = cq_.get();
        a.qp_type = IBV_QPT_RC;
        a.cap.max_send_wr = d.send;
        a.cap.max_recv_wr = d.receive;
        a.cap.max_send_sge = 2;
        a.cap.max_recv_sge = 1;
        // Devices differ in what they grant, and refuse more: less is taken until one is accepted.
        for (uint32_t want = d.inline_bytes;; want /= 2) {
            a.cap.max_inline_data = want;
            errno = 0;
            ibv_qp_init_attr asked = a;
            qp_.reset(ibv_create_qp(pd, &asked));
            if (qp_) {
                inline_ = std::min(asked.cap.max_inline_data, want);
                break;
            }
            if (want == 0) return {last_error(), "ibv_create_qp"};
        }
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_INIT;
        to.port_num = port;
        to.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        if (const int e =
                ibv_modify_qp(qp_.get(), &to,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
            return {e, "ibv_modify_qp to INIT"};
        return {};
    }

    failure connect(const qp_address& peer, uint32_t own_psn,
                    const qp_settings& s) noexcept override {
        ibv_qp_attr r{};
        r.qp_state = IBV_QPS_RTR;
        r.path_mtu = mtu_code(s.mtu);
        r.dest_qp_num = peer.number;
        r.rq_psn = peer.psn;
        r.max_dest_rd_atomic = reads_;
        r.min_rnr_timer = s.rnr_timer;
        r.ah_attr.dlid = peer.lid;
        r.ah_attr.sl = s.service_level;
        r.ah_attr.port_num = port_;
        r.ah_attr.is_global = s.global;
        if (s.global) {
            memcpy(&r.ah_attr.grh.dgid, peer.gid.data(), peer.gid.size());
            r.ah_attr.grh.sgid_index = gid_index_;
            r.ah_attr.grh.hop_limit = s.hop_limit;
            r.ah_attr.grh.traffic_class = s.traffic_class;
            r.ah_attr.grh.flow_label = s.flow_label;
        }
        if (const int e =
                ibv_modify_qp(qp_.get(), &r,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
            return {e, "ibv_modify_qp to RTR"};
        ibv_qp_attr t{};
        t.qp_state = IBV_QPS_RTS;
        t.timeout = s.timeout;
        t.retry_cnt = s.retries;
        t.rnr_retry = s.rnr_retries;
        t.sq_psn = own_psn;
        t.max_rd_atomic = reads_;
        if (const int e =
                ibv_modify_qp(qp_.get(), &t,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
            return {e, "ibv_modify_qp to RTS"};
        return {};
    }

    failure stop() noexcept override {
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_ERR;
        const int e = ibv_modify_qp(qp_.get(), &a, IBV_QP_STATE);
        return e ? failure{e, "ibv_modify_qp to ERR"} : failure{};
    }

    failure post(const send_request* r, size_t n, size_t& posted) noexcept override {
        posted = 0;
        while (posted < n) {
            ibv_send_wr wr[most];
            ibv_sge sge[most][2];
            const size_t count = std::min(n - posted, most);
            for (size_t i = 0; i < count; ++i) {
                translate(r[posted + i], wr[i], sge[i]);
                wr[i].next = i + 1 < count ? &wr[i + 1] : nullptr;
            }
            ibv_send_wr* bad = nullptr;
            if (const int e = ibv_post_send(qp_.get(), wr, &bad)) {
                posted += size_t(bad - wr);
                return {e, "ibv_post_send"};
            }
            posted += count;
        }
        return {};
    }

    failure post(const receive_request* r, size_t n, size_t& posted) noexcept override {
        posted = 0;
        while (posted < n) {
            ibv_recv_wr wr[most];
            ibv_sge sge[most];
            const size_t count = std::min(n - posted, most);
            for (size_t i = 0; i < count; ++i) {
                const receive_request& q = r[posted + i];
                sge[i] = {uint64_t(reinterpret_cast<uintptr_t>(q.data)), q.bytes, q.lkey};
                wr[i] = {q.id, i + 1 < count ? &wr[i + 1] : nullptr, &sge[i], q.data ? 1 : 0};
            }
            ibv_recv_wr* bad = nullptr;
            if (const int e = ibv_post_recv(qp_.get(), wr, &bad)) {
                posted += size_t(bad - wr);
                return {e, "ibv_post_recv"};
            }
            posted += count;
        }
        return {};
    }

    size_t poll(completion* c, size_t n) noexcept override {
        ibv_wc wc[most];
        const int got = ibv_poll_cq(cq_.get(), int(std::min(n, most)), wc);
        for (int i = 0; i < got; ++i) {
            const bool imm = wc[i].status == IBV_WC_SUCCESS && (wc[i].wc_flags & IBV_WC_WITH_IMM);
            c[i] = {wc[i].wr_id,
                    opcode_of(wc[i].opcode),
                    imm,
                    imm ? ntohl(wc[i].imm_data) : 0,
                    wc[i].byte_len,
                    uint32_t(wc[i].status),
                    wc[i].vendor_err};
        }
        return got > 0 ? size_t(got) : 0;
    }

    failure arm() noexcept override {
        const int e = ibv_req_notify_cq(cq_.get(), 0);
        return e ? failure{e, "ibv_req_notify_cq"} : failure{};
    }

    bool disarm() noexcept override {
        unsigned events = 0;
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        while (ibv_get_cq_event(events_.get(), &cq, &context) == 0) ++events;
        if (events) ibv_ack_cq_events(cq_.get(), events);
        return events > 0;
    }

private:
    static constexpr size_t most = 32;

    static void translate(const send_request& r, ibv_send_wr& wr, ibv_sge* sge) noexcept {
        wr = {};
        for (uint32_t i = 0; i < r.pieces; ++i)
            sge[i] = {uint64_t(reinterpret_cast<uintptr_t>(r.at[i].data)), r.at[i].bytes,
                      r.at[i].lkey};
        wr.wr_id = r.id;
        wr.sg_list = sge;
        wr.num_sge = int(r.pieces);
        wr.opcode = code_of(r.op);
        wr.send_flags = (r.signalled ? unsigned(IBV_SEND_SIGNALED) : 0u) |
                        (r.inline_data ? unsigned(IBV_SEND_INLINE) : 0u) |
                        (r.fence ? unsigned(IBV_SEND_FENCE) : 0u);
        wr.imm_data = htonl(r.imm);
        if (r.op == opcode::fetch_add || r.op == opcode::compare_swap) {
            wr.wr.atomic = {r.remote, r.operand, r.swap, r.rkey};
        } else {
            wr.wr.rdma = {r.remote, r.rkey};
        }
    }

    events_ptr events_;
    cq_ptr cq_;
    qp_ptr qp_;
    uint32_t inline_ = 0;
    uint8_t port_ = 1, gid_index_ = 0, reads_ = 1;
};

class real_port final : public port {
public:
    failure open(const char* device, uint8_t number) noexcept {
        number_ = number;
        int count = 0;
        errno = 0;
        ibv_device** list = ibv_get_device_list(&count);
        if (!list) return {last_error(), "ibv_get_device_list"};
        int e = ENODEV;
        for (int i = 0; i < count; ++i) {
            if (strcmp(ibv_get_device_name(list[i]), device) != 0) continue;
            errno = 0;
            context_.reset(ibv_open_device(list[i]));
            e = context_ ? 0 : last_error();
        }
        ibv_free_device_list(list);
        if (e) return {e, "ibv_open_device"};
        if (!never_blocks(context_->async_fd))
            return {last_error(), "fcntl of the event descriptor"};
        ibv_device_attr a{};
        if (const int r = ibv_query_device(context_.get(), &a)) return {r, "ibv_query_device"};
        limits_ = {a.max_mr_size,       uint32_t(a.max_qp),        uint32_t(a.max_cq),
                   uint32_t(a.max_mr),  uint32_t(a.max_cqe),       uint32_t(a.max_qp_wr),
                   uint32_t(a.max_sge), uint32_t(a.max_qp_rd_atom)};
        ibv_port_attr p{};
        if (const int r = ibv_query_port(context_.get(), number, &p)) return {r, "ibv_query_port"};
        pd_.reset(ibv_alloc_pd(context_.get()));
        if (!pd_) return {last_error(), "ibv_alloc_pd"};
        return {};
    }

    const port_limits& limits() const noexcept override { return limits_; }

    port_state state() const noexcept override {
        ibv_port_attr p{};
        if (ibv_query_port(context_.get(), number_, &p) != 0) return {};
        return {p.state == IBV_PORT_ACTIVE, 128u << p.active_mtu, p.lid,
                p.link_layer == IBV_LINK_LAYER_ETHERNET};
    }

    failure add(region& r, bool relaxed_ordering) noexcept override {
        const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                (relaxed_ordering ? unsigned(IBV_ACCESS_RELAXED_ORDERING) : 0u);
        errno = 0;
        ibv_mr* mr = ibv_reg_mr(pd_.get(), r.begin, r.bytes, access);
        if (!mr) return {last_error(), "ibv_reg_mr"};
        r.lkey = mr->lkey;
        r.rkey = mr->rkey;
        r.handle = mr;
        return {};
    }

    void remove(region& r) noexcept override {
        if (r.handle) ibv_dereg_mr(static_cast<ibv_mr*>(r.handle));
        r.handle = nullptr;
    }

    failure make(const qp_depths& d, uint8_t gid_index,
                 std::unique_ptr<queue_pair>& q) noexcept override {
        std::unique_ptr<real_queue_pair> made(new (std::nothrow) real_queue_pair);
        if (!made) return {ENOMEM, "new"};
        if (const failure f = made->make(pd_.get(), d, number_, gid_index)) return f;
        q = std::move(made);
        return {};
    }

    int event_fd() const noexcept override { return context_->async_fd; }

    bool next_event(async_event& e) noexcept override {
        ibv_async_event got{};
        if (ibv_get_async_event(context_.get(), &got) != 0) return false;
        e = {uint32_t(got.event_type), 0, 0};
        switch (got.event_type) {
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
        case IBV_EVENT_GID_CHANGE:
            e.port = uint32_t(got.element.port_num);
            break;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            e.qp_number = got.element.qp->qp_num;
            break;
        default:
            break;
        }
        ibv_ack_async_event(&got);
        return true;
    }

private:
    context_ptr context_;
    pd_ptr pd_;
    uint8_t number_ = 1;
    port_limits limits_;
};

class real_library final : public library {
public:
    failure open(const char* device, uint8_t number, std::unique_ptr<port>& p) noexcept override {
        std::unique_ptr<real_port> made(new (std::nothrow) real_port);
        if (!made) return {ENOMEM, "new"};
        if (const failure f = made->open(device, number)) return f;
        p = std::move(made);
        return {};
    }
};

library* get(failure* why) noexcept {
    // Before the first registration: a child would otherwise take pages over that the device writes to.
    // Kernels from 5.12 on copy them at fork, and the call then costs nothing.
    static const int e = ibv_fork_init();
    if (e) {
        *why = {e, "ibv_fork_init"};
        return nullptr;
    }
    static real_library l;
    return &l;
}

}  // namespace
}  // namespace ef::verbs

extern "C" __attribute__((visibility("default"))) const ef::verbs::module_entry ef_verbs_module = {
    ef::verbs::module_abi,
    EF_TEXT(EF_VERSION_MAJOR) "." EF_TEXT(EF_VERSION_MINOR) "." EF_TEXT(EF_VERSION_PATCH),
    ef::verbs::get};
