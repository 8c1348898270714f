#include "allreduce/links.hpp"

#include "transport/base/log.hpp"
#include "transport/shm/channel.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/verbs/channel.hpp"

#include <algorithm>

namespace ef {
namespace {

// More than one connection lets several cores of the kernel work on one peer's stream, and several
// paths of a fabric carry it. One machine's loopback gains nothing from it.
constexpr uint16_t connections_between_hosts = 2;

}  // namespace

links::links(group& g, waiter& w, const config& c)
    : group_(g),
      waiter_(w),
      single_copy_(c.shm_single_copy),
      connections_(uint16_t(c.tcp_connections)),
      config_(c),
      steers_(c.steer != "off"),
      traces_only_(c.steer == "trace"),
      steered_sockets_(size_t(g.nranks())) {
    const size_t n = size_t(g.nranks());
    for (table& t : table_) {
        t.ready.resize(n);
        t.owned.resize(n);
        t.wanted.resize(n);
        t.arriving.resize(n);
    }
}

void links::want(rank_t peer, traffic t) {
    table& all = table_[size_t(t)];
    if (peer == group_.rank() || all.wanted[size_t(peer)]) return;
    all.wanted[size_t(peer)] = true;
    ++missing_;
    if (one_way(peer, t)) return dial_steered(peer);
    const bool same_host = group_.info(peer).host_id == group_.info(group_.rank()).host_id;
    const uint16_t automatic = same_host ? 1 : connections_between_hosts;
    group_.want(peer, uint16_t(t),
                group_.local(peer) || by_verbs(peer) ? 1
                : connections_                       ? connections_
                                                     : automatic);
}

result<bool> links::progress() {
    bool any = false;
    link l;
    while (group_.next(l)) {
        if (l.lane > uint16_t(traffic::point_to_point)) {
            result<bool> made = take_steered(std::move(l));
            if (!made.ok()) return made;
            any |= *made;
            continue;
        }
        if (one_way(l.peer, traffic(l.lane))) return steers_unlike(l.peer);
        table& t = table_[l.lane];
        const size_t peer = size_t(l.peer);
        std::vector<link>& have = t.arriving[peer];
        const size_t needed = l.count;
        have.push_back(std::move(l));
        if (have.size() < needed) continue;
        if (t.wanted[peer]) --missing_;
        t.wanted[peer] = true;
        std::sort(have.begin(), have.end(),
                  [](const link& a, const link& b) { return a.index < b.index; });
        result<std::unique_ptr<channel>> c = make(std::move(have));
        have.clear();
        if (!c.ok()) return c.why();
        t.owned[peer] = std::move(*c);
        t.ready[peer] = t.owned[peer].get();
        any = true;
    }
    return any;
}

bool links::delivered() noexcept {
    bool all = true;
    for (table& t : table_)
        for (const std::unique_ptr<channel>& c : t.owned) {
            if (!c) continue;
            c->progress();
            all &= c->delivered();
        }
    return all;
}

result<std::unique_ptr<channel>> links::make(std::vector<link> sockets) {
    const rank_t peer = sockets.front().peer;
    log(EF_LOG_DEBUG, "links: rank {} reaches {} through {}", group_.rank(),
        group_.name(peer).text(), medium(peer));
    if (sockets.front().local)
        return make_shm_channel(group_.name(peer), std::move(sockets.front().socket),
                                group_.rank() < peer, single_copy_, waiter_);
    if (by_verbs(peer)) return make_verbs(std::move(sockets.front()));
    std::vector<fd> fds;
    for (link& l : sockets) fds.push_back(std::move(l.socket));
    return make_tcp_channel(group_.name(peer), std::move(fds), medium(peer), waiter_);
}

bool links::by_verbs(rank_t peer) const noexcept {
    return !group_.local(peer) && !group_.info(peer).rails.empty() &&
           !group_.info(group_.rank()).rails.empty();
}

result<std::unique_ptr<channel>> links::make_verbs(link l) {
    if (rails_.empty()) {
        result<std::vector<verbs::rail_plan>> plan = verbs::plan_rails(config_);
        if (!plan.ok()) return plan.why();
        result<std::vector<std::unique_ptr<verbs::rail>>> opened =
            verbs::open_rails(*plan, config_);
        if (!opened.ok()) return opened.why();
        rails_ = std::move(*opened);
    }
    verbs::channel_setup s;
    s.peer = group_.name(l.peer);
    s.socket = std::move(l.socket);
    for (const auto& r : rails_) s.rails.push_back(r.get());
    s.lanes = uint32_t(rails_.size()) * uint32_t(std::max<int64_t>(config_.verbs_lanes, 1));
    s.ring_bytes = size_t(config_.verbs_ring);
    return verbs::make_channel(std::move(s), waiter_);
}

links::break_report links::attend() {
    break_report first;
    for (table& t : table_) {
        for (size_t peer = 0; peer < t.ready.size(); ++peer) {
            channel* c = t.ready[peer];
            if (!c) continue;
            c->progress();
            c->attend();
            if (c->error().ok()) continue;
            const rank_t r = rank_t(peer);
            group_.suspect(r, c->error());
            if (!first.why.ok()) continue;
            first.left = group_.gone(r);
            first.why = c->error();
            if (first.left)
                first.why =
                    status(EF_PEER_LOST,
                           group_.name(r).text() + " has left the communicator (ef_comm_destroy)");
        }
    }
    return first;
}

std::string links::medium(rank_t peer) const {
    if (peer == group_.rank()) return "self";
    if (group_.local(peer)) return "shm";
    if (by_verbs(peer)) return "verbs:" + group_.info(group_.rank()).rails;
    return "tcp:" + group_.info(group_.rank()).interface_;
}

}  // namespace ef
