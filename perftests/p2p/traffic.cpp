#include "perftests/p2p/traffic.hpp"

#include "perftests/common/stats.hpp"
#include "transport/base/clock.hpp"

#include <algorithm>
#include <cmath>

namespace ef::perf::p2p {
namespace {

constexpr double warmup_s = 0.05;
constexpr unsigned windows_in_bound = 40;
constexpr unsigned windows_of_count = 20;
constexpr uint64_t least_windows = 3;
constexpr unsigned turns_between_looks = 256;

using lanes = std::vector<std::unique_ptr<lane>>;

/// The sending end of a stream.
class stream {
public:
    explicit stream(session& s) : s_(s), base_(done()) {}

    uint64_t left = UINT64_MAX;  // messages still to be posted
    uint64_t completed() const { return done() - base_; }
    uint64_t under_way() const {
        uint64_t n = 0;
        for (const auto& l : s_.lanes()) n += l->posted() - l->completed();
        return n;
    }

    /// Post what there is room for and take what has completed. True if anything moved.
    bool step(histogram* times) {
        bool moved = false;
        for (const auto& l : s_.lanes()) {
            const uint64_t n = std::min(left, l->room());
            if (n == 0 || (n < s_.options().traffic.post_list && n < left)) continue;
            l->post(n, n == left);
            left -= n;
            moved = true;
        }
        moved |= s_.poll(times);
        if (s_.what().two_sided)
            for (const auto& l : s_.lanes()) l->keep_receives();
        return moved;
    }

    void drain() {
        left = 0;
        patience until(s_, "the last messages");
        for (const auto& l : s_.lanes())
            while (l->posted() > l->completed()) {
                if (l->needs_closing()) l->post(1, true);  // one more than the depth is no harm
                until.spend(step(nullptr));
            }
    }

private:
    uint64_t done() const {
        uint64_t n = 0;
        for (const auto& l : s_.lanes()) n += l->completed();
        return n;
    }
    session& s_;
    uint64_t base_;
};

/// The server of a long row hears now and then that it goes on.
class heartbeat {
public:
    explicit heartbeat(session& s)
        : s_(s),
          every_ns_(uint64_t(std::min(1.0, s.options().timeout_s / 4) * 1e9)),
          last_ns_(now_ns()) {}
    void beat(uint64_t now) {
        if (now - last_ns_ < every_ns_) return;
        last_ns_ = now;
        s_.say({{"word", "alive"}});
    }

private:
    session& s_;
    uint64_t every_ns_, last_ns_;
};

/// Cuts messages into windows and knows when it is enough.
class windows {
public:
    windows(const effort_options& e, double ns_per_message)
        : effort_(e), rule_(e.precision_percent) {
        const double row_ns = 1e9 * (e.duration_s > 0 ? e.duration_s : e.bound_s);
        per_window_ = e.iterations > 0 ? (e.iterations + windows_of_count - 1) / windows_of_count
                                       : uint64_t(std::max(1.0, row_ns / windows_in_bound /
                                                                    std::max(ns_per_message, 1.0)));
        start_ns_ = last_ns_ = now_ns();
    }

    uint64_t next() const noexcept {
        const uint64_t at = count_ + per_window_;
        return effort_.iterations > 0 ? std::min(at, effort_.iterations) : at;
    }
    /// `count` messages are done, next() or more. True: enough.
    bool close(uint64_t count, uint64_t now) {
        const double per_message = double(now - last_ns_) / double(count - count_);
        rule_.add(per_message);
        slowest_ns_ = std::max(slowest_ns_, per_message);
        count_ = count;
        last_ns_ = now;
        const double spent = seconds();
        if (effort_.iterations > 0) return count_ >= effort_.iterations;
        if (effort_.duration_s > 0) return spent >= effort_.duration_s;
        return rule_.settled() || (spent >= effort_.bound_s && rule_.windows() >= least_windows);
    }
    double seconds() const noexcept { return double(last_ns_ - start_ns_) / 1e9; }

    sample result(uint64_t bytes, const histogram& times, double share) const {
        sample r;
        r.iterations = count_;
        r.windows = rule_.windows();
        r.seconds = seconds();
        r.messages_per_s = double(count_) / r.seconds;
        r.gbps = r.messages_per_s * double(bytes) * 8 / 1e9;
        r.min_window_gbps = double(bytes) * 8 / slowest_ns_;
        r.avg_us = share * 1e6 / r.messages_per_s;
        r.min_us = share * double(times.min()) / 1e3;
        r.p50_us = share * times.percentile(50) / 1e3;
        r.p99_us = share * times.percentile(99) / 1e3;
        r.p999_us = share * times.percentile(99.9) / 1e3;
        r.max_us = share * double(times.max()) / 1e3;
        r.half_width_percent = rule_.half_width_percent();
        r.settled = rule_.settled();
        return r;
    }

private:
    const effort_options& effort_;
    stop_rule rule_;
    uint64_t per_window_ = 1, count_ = 0;
    uint64_t start_ns_ = 0, last_ns_ = 0;
    double slowest_ns_ = 0;
};

/// Repeat `step`, which returns how many messages are done in all, for the warm-up. Returns ns per
/// message.
template <class F>
double warm_up(const effort_options& e, F&& step) {
    const uint64_t start = now_ns();
    const uint64_t until_ns = start + uint64_t(warmup_s * 1e9);
    uint64_t n = step();
    while (e.warmup ? n < *e.warmup : now_ns() < until_ns || n == 0) n = step();
    return double(now_ns() - start) / double(std::max<uint64_t>(n, 1));
}

// ---------------------------------------------------------------- ping-pong

/// One end's view of a ping-pong: message k of a lane carries its number's low byte at its end.
class table_tennis {
public:
    table_tennis(session& s, uint64_t bytes, const std::vector<uint64_t>& peer_posted)
        : s_(s), bytes_(bytes), peer_posted_(peer_posted) {
        for (const auto& l : s.lanes()) received_.push_back(l->received());
    }

    lane& now() const { return *s_.lanes()[at()]; }
    void hit() {
        lane& l = now();
        if (!s_.what().two_sided) l.outgoing(l.posted())[bytes_ - 1] = std::byte(uint8_t(number()));
        l.post(1, false);
    }
    /// Has the other end's message of this turn come? Polls.
    bool come() {
        lane& l = now();
        const bool moved = l.poll(nullptr);
        if (s_.what().two_sided) {
            if (moved) l.keep_receives();
            return l.received() - received_[at()] >= number();
        }
        const std::byte* last = l.incoming(peer_posted_[at()] + number() - 1) + bytes_ - 1;
        return __atomic_load_n(reinterpret_cast<const uint8_t*>(last), __ATOMIC_ACQUIRE) ==
               uint8_t(number());
    }
    void next() noexcept { ++turn_; }

private:
    size_t at() const noexcept { return size_t(turn_ % s_.lanes().size()); }
    uint64_t number() const noexcept { return turn_ / s_.lanes().size() + 1; }

    session& s_;
    uint64_t bytes_;
    std::vector<uint64_t> peer_posted_;
    std::vector<uint64_t> received_;  // before the row
    uint64_t turn_ = 0;
};

/// Looks for the client's words about once a millisecond.
class ear {
public:
    explicit ear(session& s) : s_(s), patience_(s, "waiting for the client") {}
    /// True: it said stop, into `stop`.
    bool hears_stop(bool moved, json& stop) {
        if (++turns_ % turns_between_looks) return false;
        const uint64_t now = now_ns();
        if (now - last_ns_ < 1'000'000) return false;
        last_ns_ = now;
        auto words = s_.listen();
        patience_.look(moved || words);
        if (!words || (*words)["word"] == "alive") return false;
        if ((*words)["word"] != "stop")
            throw failure(exit_failed, fmt::format("{}: it said \"{}\" during a row", s_.peer(),
                                                   std::string((*words)["word"])));
        stop = std::move(*words);
        return true;
    }

private:
    session& s_;
    patience patience_;
    unsigned turns_ = 0;
    uint64_t last_ns_ = 0;
};

}  // namespace

sample run_stream(session& s, uint64_t bytes, const tick& show) {
    const effort_options& e = s.options().effort;
    stream t(s);
    heartbeat pulse(s);
    patience until(s, "no message completes");
    histogram times;
    const double ns = warm_up(e, [&] {
        until.spend(t.step(nullptr));
        return t.completed();
    });
    const uint64_t before = t.completed();
    if (e.iterations > 0) t.left = e.iterations - std::min(e.iterations, t.under_way());
    windows w(e, ns);
    for (bool enough = false; !enough;) {
        while (t.completed() - before < w.next()) until.spend(t.step(&times));
        const uint64_t now = now_ns();
        enough = w.close(t.completed() - before, now);
        pulse.beat(now);
        show(w.seconds());
    }
    const sample r = w.result(bytes, times, 1);
    t.drain();
    return r;
}

sample run_latency(session& s, uint64_t bytes, const tick& show,
                   const std::vector<uint64_t>& peer_posted) {
    const effort_options& e = s.options().effort;
    table_tennis game(s, bytes, peer_posted);
    heartbeat pulse(s);
    patience until(s, "no answer");
    const auto one = [&] {
        lane& l = game.now();
        if (s.what().ping_pong) {
            game.hit();
            while (!game.come()) until.spend(false);
        } else {
            l.post(1, true);
            while (l.completed() < l.posted()) until.spend(l.poll(nullptr));
        }
        until.spend(true);
        game.next();
    };
    uint64_t n = 0;
    const double ns = warm_up(e, [&] { return one(), ++n; });
    histogram times;
    windows w(e, ns);
    uint64_t count = 0, last = now_ns();
    for (bool enough = false; !enough;) {
        for (const uint64_t next = w.next(); count < next; ++count) {
            one();
            const uint64_t now = now_ns();
            times.add(now - last);
            last = now;
        }
        enough = w.close(count, last);
        pulse.beat(last);
        show(w.seconds());
        last = now_ns();  // the words above are no message
    }
    const sample r = w.result(bytes, times, s.what().ping_pong ? 0.5 : 1);
    stream(s).drain();
    return r;
}

sample serve_traffic(session& s, uint64_t bytes, const std::vector<uint64_t>& peer_posted,
                     json& stop) {
    ear ears(s);
    sample r;
    if (s.what().ping_pong) {
        table_tennis game(s, bytes, peer_posted);
        for (unsigned idle = 0;;) {
            const bool come = game.come();
            if (come) {
                game.hit();
                game.next();
            } else if (++idle % turns_between_looks == 0) {
                s.poll(nullptr);  // the other lanes: the client may be closing them
            }
            if (ears.hears_stop(come, stop)) break;
        }
        stream(s).drain();
        return r;
    }
    stream t(s);
    const bool sends = s.options().traffic.bidirectional;
    if (!sends) t.left = 0;
    const uint64_t start = now_ns();
    while (!ears.hears_stop(t.step(nullptr), stop)) {
    }
    if (!sends) return r;
    r.iterations = t.completed();
    r.seconds = double(now_ns() - start) / 1e9;
    r.messages_per_s = double(r.iterations) / r.seconds;
    r.gbps = r.messages_per_s * double(bytes) * 8 / 1e9;
    t.drain();
    return r;
}

std::vector<uint64_t> begin_row(session& s, uint64_t bytes) {
    std::vector<uint64_t> posted;
    for (const auto& l : s.lanes()) {
        l->begin(bytes);
        l->keep_receives();
        // What a ping-pong waits for must not be there already.
        if (s.what().ping_pong && !s.what().two_sided)
            for (size_t i = 0; i < l->slots(); ++i) l->incoming(i)[bytes - 1] = std::byte{0};
        posted.push_back(l->posted());
    }
    return posted;
}

void await_received(session& s, const json& posted) {
    if (!s.what().two_sided) return;
    patience until(s, "messages that were sent and have not come");
    for (size_t i = 0; i < s.lanes().size(); ++i) {
        lane& l = *s.lanes()[i];
        const uint64_t all = posted.at(i).get<uint64_t>();
        while (l.received() < all) {
            until.spend(s.poll(nullptr));
            l.keep_receives();
        }
    }
}

std::vector<uint64_t> posted_so_far(session& s) {
    std::vector<uint64_t> all;
    for (const auto& l : s.lanes()) all.push_back(l->posted());
    return all;
}

}  // namespace ef::perf::p2p
