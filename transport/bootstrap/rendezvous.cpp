// The rendezvous: every rank tells the root where it listens and hears where its neighbours do.
// What goes wrong is told to everybody who has come, so that all ranks give the same reason.
#include "transport/base/log.hpp"
#include "transport/bootstrap/group_impl.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <cerrno>
#include <ctime>

namespace ef {
namespace {

constexpr uint64_t waiting_period_ns = 500'000'000;

void nap() {
    const timespec t{0, 20'000'000};
    nanosleep(&t, nullptr);
}

}  // namespace

result<std::vector<endpoint>> group_impl::listen_as_root(launch& l, deadline d) {
    fd socket = std::move(l.listener);
    if (!socket && l.root.empty()) {
        interface_choice i = loopback_interface();
        if (!l.one_host || !config_.interface_.empty()) {
            result<interface_choice> r = choose_interface(config_.interface_, nullptr);
            if (!r.ok()) return r.why();
            i = *r;
        }
        result<fd> s = listen_on(i.address);
        if (!s.ok()) return s.why().in("rendezvous");
        socket = std::move(*s);
    } else if (!socket) {
        result<std::vector<endpoint>> at = resolve(l.root);
        if (!at.ok()) return at;
        // An earlier communicator of another thread may still hold the port for a moment.
        const deadline retry = deadline::in_ms(uint64_t(std::min(d.left_ms(), 2000)));
        for (;;) {
            status why;
            for (const endpoint& e : *at) {
                result<fd> s = listen_on(e);
                if (s.ok()) {
                    socket = std::move(*s);
                    break;
                }
                if (why.ok()) why = s.why();
            }
            if (socket) break;
            if (why.text().find(fmt::format("errno {}", EADDRINUSE)) == std::string::npos ||
                retry.passed())
                return why.in("rendezvous: rank 0 cannot listen at " + l.root);
            nap();
        }
    }
    const endpoint where = local_end(socket.get());
    root_listener_ = std::make_unique<listener>(poller_, key_, [this](const hello_message& h) {
        return h.purpose == for_rendezvous && h.sequence == sequence_ ? verdict_accepted
                                                                      : verdict_other;
    });
    if (status s = root_listener_->add(std::move(socket), false); !s.ok()) return s;
    log(EF_LOG_DEBUG, "rendezvous: rank 0 of {} listens at {}", nranks_, where.text());
    if (l.publish_root)
        if (status s = l.publish_root(where.text()); !s.ok()) return s.in("rendezvous");
    return std::vector<endpoint>{where};
}

result<std::vector<endpoint>> group_impl::find_root(launch& l, deadline d) {
    if (rank_ == 0) return listen_as_root(l, d);
    std::string root = l.root;
    if (root.empty()) {
        if (!l.lookup_root)
            return status(EF_INVALID, "rendezvous: no root is known, set EFLOPS_ROOT=host:port");
        result<std::string> r = l.lookup_root(d);
        if (!r.ok()) return r.why().in("rendezvous");
        root = *r;
    }
    return resolve(root);
}

std::vector<rank_t> group_impl::missing() const {
    std::vector<rank_t> m;
    for (rank_t r = 1; r < nranks_; ++r) {
        const auto e = enlisted_.find(r);
        if (e == enlisted_.end() || e->second.address.empty()) m.push_back(r);
    }
    return m;
}

void group_impl::admit(arrival a, uint64_t) {
    const auto r = rank_t(uint32_t(a.hello.from));
    auto line = std::make_unique<connection>(poller_, std::move(a.socket), r, a.address);
    status why;
    if (a.hello.nranks != uint32_t(nranks_))
        why =
            status(EF_MISMATCH, fmt::format("rank {} at {} was started for {} ranks, rank 0 for {}",
                                            r, a.address, uint32_t(a.hello.nranks), nranks_));
    else if (r == 0 || enlisted_.count(r))
        why = status(EF_INVALID,
                     fmt::format("rank {} has already come, from {}: a second one came from {}", r,
                                 r == 0 ? "this communicator's root" : enlisted_[r].line->address(),
                                 a.address));
    if (why.ok()) {
        enlisted_[r].line = std::move(line);
        return;
    }
    log(EF_LOG_WARN, "rendezvous: {}", why.text());
    line->send(frame_refusal, write_refusal(why));
    if (why.code() == EF_MISMATCH && dial_failure_.ok()) dial_failure_ = why;
}

void group_impl::read_enlisted() {
    for (auto e = enlisted_.begin(); e != enlisted_.end();) {
        connection& line = *e->second.line;
        frame f;
        bool good = true;
        while (good && line.next(f))
            good = f.type == frame_enlist && parse_text(f.payload, e->second.address);
        // One that goes again may come again: it is only missing.
        if (!good || line.broken()) e = enlisted_.erase(e);
        else ++e;
    }
}

void group_impl::answer_all() {
    for (auto& [r, e] : enlisted_) {
        answer_message m;
        m.group = id_;
        for (const rank_t n : neighbours_of(r, nranks_))
            m.neighbours.push_back({n, n == 0 ? infos_[0].address : enlisted_[n].address});
        e.line->send(frame_answer, write_answer(m));
    }
}

status group_impl::root_timed_out(uint64_t waited_ms) {
    std::string text = fmt::format("{} not come within {} ms", rank_list(missing()), waited_ms);
    if (const unsigned n = root_listener_->refused())
        text +=
            fmt::format("; {} connection{} refused for a wrong key", n, n == 1 ? " was" : "s were");
    if (!root_listener_->trouble().ok())
        text += fmt::format("; {}", root_listener_->trouble().text());
    return status(EF_TIMEOUT, std::move(text));
}

status group_impl::serve_root(const launch&, deadline d) {
    const uint64_t start = now_ns();
    uint64_t tell_at = start + waiting_period_ns;
    status bad;
    while (bad.ok()) {
        look(d.left_ms(50));
        arrival a;
        while (root_listener_->next(a)) admit(std::move(a), start);
        read_enlisted();
        const uint64_t now = now_ns();
        root_listener_->tick(now);
        const std::vector<rank_t> m = missing();
        if (m.empty()) break;
        if (!dial_failure_.ok()) bad = dial_failure_;
        else if (root_listener_->trouble().code() == EF_NO_RESOURCE)
            bad = root_listener_->trouble();
        else if (d.passed()) bad = root_timed_out((now - start) / 1'000'000);
        if (now >= tell_at) {
            tell_at = now + waiting_period_ns;
            const bytes text = writer().text(rank_list(m) + " not come yet").take();
            for (auto& [r, e] : enlisted_) e.line->send(frame_waiting, text);
        }
    }
    if (bad.ok()) {
        randombytes_buf(id_.data(), id_.size());
        answer_all();
        for (const rank_t n : neighbours_of(0, nranks_))
            neighbours_[n].address = enlisted_[n].address;
    } else {
        const bytes refusal = write_refusal(bad);
        for (auto& [r, e] : enlisted_) e.line->send(frame_refusal, refusal);
    }
    // What a socket does not take at once (it always does, unless thousands of ranks share an
    // answer) goes out within the deadline.
    for (bool all = false; !all && !d.passed();) {
        all = true;
        for (auto& [r, e] : enlisted_) all &= e.line->flushed() || e.line->broken();
        if (!all) look(d.left_ms(50));
    }
    root_listener_->close();
    root_listener_.reset();
    enlisted_.clear();
    return bad.in("rendezvous");
}

status group_impl::ask_root(const launch& l, std::vector<endpoint> root, deadline d) {
    dial_order o{hello_to(0, for_rendezvous), std::move(root), "rank 0", d};
    o.hello.sequence = l.sequence;
    dialer_.add(std::move(o));
    while (dial_failure_.ok() && !enlisted_.count(0)) look(d.left_ms(20));
    if (!dial_failure_.ok()) {
        std::string where = dial_failure_.code() == EF_TIMEOUT
                                ? fmt::format("rendezvous, {} ms", config_.timeout_ms)
                                : "rendezvous";
        return status(dial_failure_).in(where);
    }
    const status s = hear_root(*enlisted_[0].line, d);
    enlisted_.clear();
    return s.in("rendezvous");
}

status group_impl::hear_root(connection& line, deadline d) {
    line.send(frame_enlist, writer().text(infos_[size_t(rank_)].address).take());
    std::string waiting = "it has not said for whom it waits";
    // The root's clock started at another moment: a little longer here lets its word arrive.
    const uint64_t until = d.at_ns() + 300'000'000;
    for (;;) {
        frame f;
        while (line.next(f)) {
            status why;
            answer_message m;
            if (f.type == frame_waiting && parse_text(f.payload, waiting)) continue;
            if (f.type == frame_refusal && parse_refusal(f.payload, why)) return why;
            if (f.type != frame_answer || !parse_answer(f.payload, nranks_, m))
                return status(EF_MISMATCH, "rank 0 at " + line.address() +
                                               ": sent a message that cannot be read");
            id_ = m.group;
            for (neighbour_address& n : m.neighbours)
                neighbours_[n.rank].address = std::move(n.address);
            return {};
        }
        if (line.broken())
            return status(EF_PEER_LOST,
                          fmt::format("rank 0 at {} died: {}", line.address(), line.why()));
        if (now_ns() >= until)
            return status(EF_TIMEOUT, fmt::format("rank 0 at {} gave no answer within {} ms: {}",
                                                  line.address(), config_.timeout_ms, waiting));
        look(20);
    }
}

}  // namespace ef
