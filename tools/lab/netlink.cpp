#include "tools/lab/netlink.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/filter.h>
#include <linux/gen_stats.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

// <linux/if.h> and <net/if.h> do not go together; this one is only in the first.
#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif

namespace ef::lab {
namespace {

constexpr int answer_timeout_s = 5;

/// A message under construction. A put that finds no room is noticed when it is sent.
class message {
public:
    template <class Header>
    message(int type, int flags, const Header& h) : m_(nlmsg_alloc_simple(type, flags)) {
        ok_ = m_ && nlmsg_append(m_, const_cast<Header*>(&h), sizeof h, NLMSG_ALIGNTO) == 0;
    }
    message(const message&) = delete;
    message& operator=(const message&) = delete;
    ~message() { nlmsg_free(m_); }

    void put(int type, const void* data, size_t bytes) {
        ok_ = ok_ && nla_put(m_, type, int(bytes), data) == 0;
    }
    template <class T>
    void put(int type, const T& value) {
        put(type, &value, sizeof value);
    }
    void put_text(int type, const std::string& text) { put(type, text.c_str(), text.size() + 1); }
    template <class T>
    void append(const T& value) {
        ok_ = ok_ && nlmsg_append(m_, const_cast<T*>(&value), sizeof value, NLMSG_ALIGNTO) == 0;
    }
    template <class Body>
    void nest(int type, const Body& body) {
        nlattr* const n = ok_ ? nla_nest_start(m_, type) : nullptr;
        ok_ = n != nullptr;
        body();
        if (ok_) nla_nest_end(m_, n);
    }
    /// Null if it did not fit.
    nl_msg* get() const { return ok_ ? m_ : nullptr; }

private:
    nl_msg* m_;
    bool ok_;
};

struct answer {
    int error = 0;
    std::string words;  // the kernel's
};

/// The sentence that a kernel puts behind an error (NETLINK_EXT_ACK).
std::string words_of(nlmsgerr* e, size_t bytes) {
    const nlmsghdr* const h =
        reinterpret_cast<nlmsghdr*>(reinterpret_cast<char*>(e) - NLMSG_HDRLEN);
    if (!(h->nlmsg_flags & NLM_F_ACK_TLVS)) return {};
    size_t at = sizeof *e;
    if (!(h->nlmsg_flags & NLM_F_CAPPED)) at += e->msg.nlmsg_len - NLMSG_HDRLEN;
    if (at >= bytes) return {};
    nlattr* const first = reinterpret_cast<nlattr*>(reinterpret_cast<char*>(e) + NLMSG_ALIGN(at));
    nlattr* const text = nla_find(first, int(bytes - NLMSG_ALIGN(at)), NLMSGERR_ATTR_MSG);
    return text ? nla_get_string(text) : std::string();
}

int on_error(sockaddr_nl*, nlmsgerr* e, void* arg) {
    answer& a = *static_cast<answer*>(arg);
    a.error = -e->error;
    const nlmsghdr* const h =
        reinterpret_cast<nlmsghdr*>(reinterpret_cast<char*>(e) - NLMSG_HDRLEN);
    a.words = words_of(e, h->nlmsg_len - NLMSG_HDRLEN);
    return NL_STOP;
}

status failed(const char* what, const answer& a) {
    status s = system_error(what, a.error);
    return a.words.empty() ? s : status(s.code(), fmt::format("{}: {}", s.text(), a.words));
}

}  // namespace

void netlink::free_socket::operator()(nl_sock* s) const noexcept { nl_socket_free(s); }

result<netlink> netlink::open() {
    netlink n;
    n.socket_.reset(nl_socket_alloc());
    if (!n.socket_) return status(EF_NO_MEMORY, "netlink socket: out of memory");
    if (const int e = nl_connect(n.socket_.get(), NETLINK_ROUTE); e != 0)
        return status(EF_SYSTEM, fmt::format("netlink socket: {}", nl_geterror(e)));
    const int fd = nl_socket_get_fd(n.socket_.get()), on = 1;
    setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
    // The kernel answers at once; a lost answer must not become a wait without end.
    const timeval limit{answer_timeout_s, 0};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
        return system_error("netlink socket: SO_RCVTIMEO", errno);
    nl_socket_set_buffer_size(n.socket_.get(), 1 << 20, 1 << 16);
    return n;
}

status netlink::ask(nl_msg* m, const char* what, int accepted_errno) {
    if (!m) return status(EF_NO_MEMORY, fmt::format("{}: the message does not fit", what));
    answer a;
    const std::unique_ptr<nl_cb, decltype(&nl_cb_put)> cb(nl_cb_alloc(NL_CB_DEFAULT), nl_cb_put);
    if (!cb) return status(EF_NO_MEMORY, fmt::format("{}: out of memory", what));
    nl_cb_err(cb.get(), NL_CB_CUSTOM, on_error, &a);
    int e = nl_send_auto(socket_.get(), m);
    bool acknowledged = false;
    const auto on_ack = [](nl_msg*, void* arg) -> int {
        *static_cast<bool*>(arg) = true;
        return NL_STOP;
    };
    nl_cb_set(cb.get(), NL_CB_ACK, NL_CB_CUSTOM, on_ack, &acknowledged);
    while (e >= 0 && !acknowledged && a.error == 0) e = nl_recvmsgs(socket_.get(), cb.get());
    if (a.error != 0) return a.error == accepted_errno ? status() : failed(what, a);
    if (e < 0) return status(EF_SYSTEM, fmt::format("{}: netlink: {}", what, nl_geterror(e)));
    return {};
}

status netlink::dump(int type, const std::function<void(nlmsghdr*)>& each) {
    answer a;
    struct state {
        const std::function<void(nlmsghdr*)>& each;
        bool done = false;
    } s{each};
    const std::unique_ptr<nl_cb, decltype(&nl_cb_put)> cb(nl_cb_alloc(NL_CB_DEFAULT), nl_cb_put);
    if (!cb) return status(EF_NO_MEMORY, "netlink dump: out of memory");
    nl_cb_err(cb.get(), NL_CB_CUSTOM, on_error, &a);
    const auto valid = [](nl_msg* m, void* arg) -> int {
        static_cast<state*>(arg)->each(nlmsg_hdr(m));
        return NL_OK;
    };
    const auto finish = [](nl_msg*, void* arg) -> int {
        static_cast<state*>(arg)->done = true;
        return NL_STOP;
    };
    nl_cb_set(cb.get(), NL_CB_VALID, NL_CB_CUSTOM, valid, &s);
    nl_cb_set(cb.get(), NL_CB_FINISH, NL_CB_CUSTOM, finish, &s);
    // Both kinds of header begin alike, and zeros mean "all".
    const tcmsg all{};
    const ifinfomsg links{};
    int e = type == RTM_GETLINK ? nl_send_simple(socket_.get(), type, NLM_F_DUMP,
                                                 const_cast<ifinfomsg*>(&links), sizeof links)
                                : nl_send_simple(socket_.get(), type, NLM_F_DUMP,
                                                 const_cast<tcmsg*>(&all), sizeof all);
    while (e >= 0 && !s.done && a.error == 0) e = nl_recvmsgs(socket_.get(), cb.get());
    if (a.error != 0) return failed("netlink dump", a);
    if (e < 0) return status(EF_SYSTEM, fmt::format("netlink dump: {}", nl_geterror(e)));
    return {};
}

// ---------------------------------------------------------------- interfaces

status netlink::add_veth(const interface_name& here, const interface_name& there, int peer_ns,
                         uint32_t mtu) {
    const auto header = [](const interface_name& i) {
        ifinfomsg h{};
        h.ifi_index = i.index;
        return h;
    };
    message m(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, header(here));
    const uint32_t one_queue = 1;
    const auto common = [&](const interface_name& i) {
        m.put_text(IFLA_IFNAME, i.name);
        m.put(IFLA_MTU, mtu);
        m.put(IFLA_NUM_TX_QUEUES, one_queue);
        m.put(IFLA_NUM_RX_QUEUES, one_queue);
    };
    common(here);
    m.nest(IFLA_LINKINFO, [&] {
        m.put_text(IFLA_INFO_KIND, "veth");
        m.nest(IFLA_INFO_DATA, [&] {
            m.nest(VETH_INFO_PEER, [&] {
                m.append(header(there));
                common(there);
                m.put(IFLA_NET_NS_FD, uint32_t(peer_ns));
            });
        });
    });
    return ask(m.get(), "new veth pair").in(fmt::format("{} - {}", here.name, there.name));
}

status netlink::set_up(int index, bool up) {
    ifinfomsg h{};
    h.ifi_index = index;
    h.ifi_change = IFF_UP;
    h.ifi_flags = up ? IFF_UP : 0;
    return ask(message(RTM_NEWLINK, 0, h).get(), up ? "link up" : "link down");
}

status netlink::add_address(int index, ipv4 address, uint8_t prefix_bits) {
    ifaddrmsg h{};
    h.ifa_family = AF_INET;
    h.ifa_prefixlen = prefix_bits;
    h.ifa_index = unsigned(index);
    message m(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, h);
    const uint32_t a = htonl(address);
    m.put(IFA_LOCAL, a);
    m.put(IFA_ADDRESS, a);
    return ask(m.get(), "new address");
}

result<std::vector<interface_state>> netlink::interfaces() {
    std::vector<interface_state> all;
    const status s = dump(RTM_GETLINK, [&](nlmsghdr* h) {
        const auto* const i = static_cast<ifinfomsg*>(nlmsg_data(h));
        nlattr* const name = nlmsg_find_attr(h, sizeof *i, IFLA_IFNAME);
        if (!name) return;
        const unsigned both = IFF_RUNNING | IFF_LOWER_UP;
        all.push_back({nla_get_string(name), i->ifi_index, (i->ifi_flags & IFF_UP) != 0,
                       (i->ifi_flags & both) == both});
    });
    if (!s.ok()) return s.in("interfaces");
    return all;
}

// ---------------------------------------------------------------- routes

namespace {

rtmsg route_to(uint8_t prefix_bits) {
    rtmsg h{};
    h.rtm_family = AF_INET;
    h.rtm_dst_len = prefix_bits;
    h.rtm_table = RT_TABLE_MAIN;
    h.rtm_protocol = RTPROT_STATIC;
    h.rtm_scope = RT_SCOPE_UNIVERSE;
    h.rtm_type = RTN_UNICAST;
    return h;
}

void put_destination(message& m, ipv4 address, uint8_t prefix_bits) {
    if (prefix_bits > 0) m.put(RTA_DST, uint32_t(htonl(address)));
}

}  // namespace

status netlink::replace_route(ipv4 address, uint8_t prefix_bits, std::span<const next_hop> via) {
    message m(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route_to(prefix_bits));
    put_destination(m, address, prefix_bits);
    m.nest(RTA_MULTIPATH, [&] {
        for (const next_hop& hop : via) {
            rtnexthop h{};
            h.rtnh_len = sizeof h + NLA_HDRLEN + sizeof(uint32_t);
            h.rtnh_ifindex = hop.interface_index;
            m.append(h);
            m.put(RTA_GATEWAY, uint32_t(htonl(hop.gateway)));
        }
    });
    return ask(m.get(), "route");
}

status netlink::delete_route(ipv4 address, uint8_t prefix_bits) {
    rtmsg h = route_to(prefix_bits);
    h.rtm_scope = RT_SCOPE_NOWHERE;
    message m(RTM_DELROUTE, 0, h);
    put_destination(m, address, prefix_bits);
    return ask(m.get(), "route", ESRCH);
}

// ---------------------------------------------------------------- shaping, loss, counters

namespace {

tcmsg at_root(int index) {
    tcmsg h{};
    h.tcm_family = AF_UNSPEC;
    h.tcm_ifindex = index;
    h.tcm_parent = TC_H_ROOT;
    h.tcm_handle = TC_H_MAKE(1 << 16, 0);
    return h;
}

tcmsg at_egress_hook(int index) {
    tcmsg h = at_root(index);
    h.tcm_parent = TC_H_CLSACT;
    h.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
    return h;
}

}  // namespace

status netlink::set_shape(int index, const shape& s) {
    message m(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, at_root(index));
    m.put_text(TCA_KIND, "tbf");
    m.nest(TCA_OPTIONS, [&] {
        tc_tbf_qopt q{};
        // Named, the kernel computes times itself instead of asking for a table of them.
        q.rate.linklayer = TC_LINKLAYER_ETHERNET;
        q.rate.rate = uint32_t(std::min<uint64_t>(s.bytes_per_s, UINT32_MAX));
        q.limit = s.queue_bytes;
        m.put(TCA_TBF_PARMS, q);
        m.put(TCA_TBF_BURST, s.burst_bytes);
        if (s.bytes_per_s > UINT32_MAX) m.put(TCA_TBF_RATE64, s.bytes_per_s);
    });
    return ask(m.get(), "token bucket (tbf)");
}

status netlink::set_loss(int index, double percent) {
    const tcmsg hook = at_egress_hook(index);
    // Where there was never one the kernel says ENOENT, where one has been removed EINVAL.
    const auto remove = [&](int allowed) {
        message m(RTM_DELQDISC, 0, hook);
        m.put_text(TCA_KIND, "clsact");
        return ask(m.get(), "loss", allowed);
    };
    if (!remove(ENOENT).ok())
        if (status s = remove(EINVAL); !s.ok()) return s;
    if (percent <= 0) return {};

    message hold(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, hook);
    hold.put_text(TCA_KIND, "clsact");
    if (status s = ask(hold.get(), "loss (clsact)"); !s.ok()) return s;
    // A random word below the threshold: dropped. Classic BPF, which an ordinary user may load.
    const auto threshold =
        uint32_t(std::min(std::round(percent / 100 * 4294967296.0), 4294967295.0));
    const uint32_t below = percent >= 100 ? TC_ACT_SHOT : TC_ACT_OK;
    const sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, uint32_t(SKF_AD_OFF + SKF_AD_RANDOM)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, threshold, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, below),
        BPF_STMT(BPF_RET | BPF_K, TC_ACT_SHOT),
    };
    tcmsg h = hook;
    h.tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS);
    h.tcm_handle = 1;
    h.tcm_info = TC_H_MAKE(1u << 16, htons(ETH_P_ALL));
    message m(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, h);
    m.put_text(TCA_KIND, "bpf");
    m.nest(TCA_OPTIONS, [&] {
        m.put(TCA_BPF_OPS_LEN, uint16_t(std::size(program)));
        m.put(TCA_BPF_OPS, program, sizeof program);
        m.put(TCA_BPF_FLAGS, uint32_t(TCA_BPF_FLAG_ACT_DIRECT));
    });
    return ask(m.get(), "loss (cls_bpf)");
}

result<std::map<int, traffic>> netlink::sent() {
    std::map<int, traffic> all;
    const status s = dump(RTM_GETQDISC, [&](nlmsghdr* h) {
        const auto* const t = static_cast<tcmsg*>(nlmsg_data(h));
        nlattr* const kind = nlmsg_find_attr(h, sizeof *t, TCA_KIND);
        nlattr* const stats = nlmsg_find_attr(h, sizeof *t, TCA_STATS2);
        if (!kind || !stats) return;
        const bool bucket = strcmp(nla_get_string(kind), "tbf") == 0;
        if (!bucket && strcmp(nla_get_string(kind), "clsact") != 0) return;
        traffic& to = all[t->tcm_ifindex];
        const auto basic =
            nla_find(static_cast<nlattr*>(nla_data(stats)), nla_len(stats), TCA_STATS_BASIC);
        const auto queue =
            nla_find(static_cast<nlattr*>(nla_data(stats)), nla_len(stats), TCA_STATS_QUEUE);
        const auto many =
            nla_find(static_cast<nlattr*>(nla_data(stats)), nla_len(stats), TCA_STATS_PKT64);
        gnet_stats_basic b{};
        gnet_stats_queue q{};
        if (basic) memcpy(&b, nla_data(basic), std::min(sizeof b, size_t(nla_len(basic))));
        if (queue) memcpy(&q, nla_data(queue), std::min(sizeof q, size_t(nla_len(queue))));
        if (bucket) {
            to.bytes = b.bytes;
            to.packets = many ? nla_get_u64(many) : b.packets;
        }
        to.dropped_packets += q.drops;
    });
    if (!s.ok()) return s.in("counters");
    return all;
}

}  // namespace ef::lab
