#include "tests/support/fake_verbs.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

namespace ef::verbs {
namespace {

// ibv_wc_status
constexpr uint32_t local_protection = 4, flushed = 5, remote_access = 10, retries_exceeded = 12;

}  // namespace

class fake_queue_pair final : public queue_pair {
public:
    fake_queue_pair(fake_network& n, std::string device, const qp_depths& d)
        : net(n),
          device_name(std::move(device)),
          depths(d),
          event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        const std::scoped_lock hold(net.mutex_);
        own_number = net.next_number_++;
        net.pairs_[own_number] = this;
    }
    ~fake_queue_pair() override {
        const std::scoped_lock hold(net.mutex_);
        net.pairs_.erase(own_number);
        close(event);
    }

    uint32_t number() const noexcept override { return own_number; }
    uint32_t inline_bytes() const noexcept override { return depths.inline_bytes; }

    failure connect(const qp_address& to, uint32_t, const qp_settings&) noexcept override {
        const std::scoped_lock hold(net.mutex_);
        peer = to.number;
        ready = true;
        return {};
    }

    failure stop() noexcept override {
        const std::scoped_lock hold(net.mutex_);
        into_error();
        return {};
    }

    failure post(const send_request* r, size_t n, size_t& posted) noexcept override {
        const std::scoped_lock hold(net.mutex_);
        for (posted = 0; posted < n; ++posted) {
            if (sends.size() >= depths.send) return {ENOMEM, "post_send"};
            sends.push_back({r[posted], {}});
            send& s = sends.back();
            if (s.request.inline_data)
                for (uint32_t i = 0; i < s.request.pieces; ++i)
                    s.inlined.append(reinterpret_cast<const char*>(s.request.at[i].data),
                                     s.request.at[i].bytes);
            net.step(*this);
        }
        return {};
    }

    failure post(const receive_request* r, size_t n, size_t& posted) noexcept override {
        const std::scoped_lock hold(net.mutex_);
        for (posted = 0; posted < n; ++posted) {
            if (receives.size() >= depths.receive) return {ENOMEM, "post_recv"};
            receives.push_back(r[posted]);
        }
        return {};
    }

    size_t poll(completion* c, size_t n) noexcept override {
        const std::scoped_lock hold(net.mutex_);
        step_both();
        size_t i = 0;
        for (; i < n && !done.empty(); ++i) {
            c[i] = done.front();
            done.pop_front();
        }
        return i;
    }

    int event_fd() const noexcept override { return event; }
    failure arm() noexcept override {
        const std::scoped_lock hold(net.mutex_);
        armed = true;
        step_both();
        return {};
    }
    bool disarm() noexcept override {
        uint64_t n = 0;
        return read(event, &n, sizeof(n)) == sizeof(n);
    }

    void step_both() {
        net.step(*this);
        if (const auto other = net.pairs_.find(peer); other != net.pairs_.end())
            net.step(*other->second);
    }

    void complete(const completion& c) {
        done.push_back(c);
        if (!std::exchange(armed, false)) return;
        const uint64_t one = 1;
        (void)!write(event, &one, sizeof(one));
    }

    void into_error() {
        broken = true;
        for (const send& s : sends) complete({s.request.id, s.request.op, false, 0, 0, flushed, 0});
        sends.clear();
        for (const receive_request& r : receives)
            complete({r.id, opcode::receive, false, 0, 0, flushed, 0});
        receives.clear();
    }

    struct send {
        send_request request;
        std::string inlined;
    };

    fake_network& net;
    std::string device_name;
    qp_depths depths;
    uint32_t own_number = 0, peer = 0;
    bool ready = false, broken = false, armed = false;
    std::deque<send> sends;
    std::deque<receive_request> receives;
    std::deque<completion> done;
    int event;
};

class fake_port final : public port {
public:
    fake_port(fake_network& n, std::string name) : net_(n), name_(std::move(name)) {
        limits_ = {uint64_t(1) << 40, 1024, 1024, 1024, 4096, 4096, 16, 16};
    }
    const port_limits& limits() const noexcept override { return limits_; }
    port_state state() const noexcept override { return {true, 4096, 0, true}; }
    failure add(region& r, bool) noexcept override {
        const std::scoped_lock hold(net_.mutex_);
        if (net_.refuses_) return {ENOMEM, "ibv_reg_mr"};
        r.lkey = r.rkey = net_.next_key_++;
        r.handle = &net_;
        net_.regions_[r.lkey] = {r.begin, r.bytes};
        return {};
    }
    void remove(region& r) noexcept override {
        const std::scoped_lock hold(net_.mutex_);
        net_.regions_.erase(r.lkey);
        r.handle = nullptr;
    }
    failure make(const qp_depths& d, uint8_t, std::unique_ptr<queue_pair>& q) noexcept override {
        q = std::make_unique<fake_queue_pair>(net_, name_, d);
        return {};
    }
    int event_fd() const noexcept override { return -1; }
    bool next_event(async_event&) noexcept override { return false; }

private:
    fake_network& net_;
    std::string name_;
    port_limits limits_;
};

std::unique_ptr<port> fake_network::open(const std::string& name) {
    return std::make_unique<fake_port>(*this, name);
}

void fake_network::cut(const std::string& device, bool times_out) {
    const std::scoped_lock hold(mutex_);
    cut_.insert(device);
    if (times_out) timing_out_.insert(device);
}

void fake_network::mend(const std::string& device) {
    const std::scoped_lock hold(mutex_);
    cut_.erase(device);
    timing_out_.erase(device);
}

void fake_network::refuse_regions(bool on) {
    const std::scoped_lock hold(mutex_);
    refuses_ = on;
}

size_t fake_network::regions() const {
    const std::scoped_lock hold(mutex_);
    return regions_.size();
}

// Carry out what stands first in the send queue, as far as it can be.
void fake_network::step(fake_queue_pair& q) {
    while (!q.sends.empty()) {
        if (q.broken) return q.into_error();
        if (!q.ready) return;
        const auto found = pairs_.find(q.peer);
        fake_queue_pair* to = found == pairs_.end() ? nullptr : found->second;
        // Not for a sleeper: nobody would poll, and here that is what makes time go on.
        if (delays_ && !q.armed && !(to && to->armed) && random_() % 3 == 0) return;
        const fake_queue_pair::send& s = q.sends.front();
        const send_request& r = s.request;
        const auto fail = [&](uint32_t status) {
            const completion c{r.id, r.op, false, 0, 0, status, 0x81};
            q.sends.pop_front();
            q.complete(c);
            q.into_error();
        };
        const bool gone = !to || to->broken;
        const bool is_cut = cut_.count(q.device_name) || (to && cut_.count(to->device_name));
        if (gone || is_cut) {
            if (gone || timing_out_.count(q.device_name) ||
                (to && timing_out_.count(to->device_name)))
                return fail(retries_exceeded);
            return;
        }
        if (!to->ready) return;
        std::string bytes = s.inlined;
        for (uint32_t i = 0; !r.inline_data && i < r.pieces; ++i) {
            const auto key = regions_.find(r.at[i].lkey);
            const std::byte* data = r.at[i].data;
            if (key == regions_.end() || data < key->second.first ||
                data + r.at[i].bytes > key->second.first + key->second.second)
                return fail(local_protection);
            bytes.append(reinterpret_cast<const char*>(data), r.at[i].bytes);
        }
        auto* target = reinterpret_cast<std::byte*>(uintptr_t(r.remote));
        if (!bytes.empty()) {
            const auto key = regions_.find(r.rkey);
            if (key == regions_.end() || target < key->second.first ||
                target + bytes.size() > key->second.first + key->second.second)
                return fail(remote_access);
        }
        if (r.op == opcode::write_imm && to->receives.empty()) return;  // RNR: again later
        if (!bytes.empty()) memcpy(target, bytes.data(), bytes.size());
        if (r.op == opcode::write_imm) {
            const receive_request used = to->receives.front();
            to->receives.pop_front();
            to->complete({used.id, opcode::receive_imm, true, r.imm, uint32_t(bytes.size()), 0, 0});
        }
        if (r.signalled) q.complete({r.id, r.op, false, 0, 0, 0, 0});
        q.sends.pop_front();
    }
}

}  // namespace ef::verbs
