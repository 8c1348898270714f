// Channels for collectives whose connections carry data one way, and the choice of their paths.
#include "allreduce/links.hpp"
#include "transport/base/log.hpp"
#include "transport/bootstrap/control_wire.hpp"
#include "transport/tcp/channel.hpp"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>

namespace ef {
namespace {

// The lane of a connection says what it is for: a bit for "data away from the dialler only", and
// which generation it belongs to.
constexpr uint16_t one_way_bit = 0x100;
constexpr uint32_t generations = 128;

}  // namespace

bool links::one_way(rank_t peer, traffic t) const noexcept {
    return steers_ && t == traffic::collectives && !group_.local(peer) && !by_verbs(peer);
}

uint16_t links::steered_lane() const noexcept {
    return uint16_t(one_way_bit | (generation_ % generations) << 9);
}

// One connection per path; several only where they were asked for and take the same path.
void links::dial_steered(rank_t peer) {
    const path::steered_peer* p = chosen_ ? chosen_->to(peer) : nullptr;
    const std::span<const uint16_t> ports = p ? std::span(p->ports) : std::span<const uint16_t>();
    uint16_t count = std::max<uint16_t>(connections_, 1);
    if (!ports.empty()) count = uint16_t(std::min<size_t>(count, ports.size()));
    group_.dial(peer, steered_lane(), count, ports);
}

uint16_t links::spare_port(rank_t peer) const noexcept {
    const path::steered_peer* p = chosen_ ? chosen_->to(peer) : nullptr;
    return p && p->ports.size() > std::max<size_t>(connections_, 1) ? p->ports.back() : 0;
}

status links::steers_unlike(rank_t peer) const {
    return status(
        EF_MISMATCH,
        fmt::format("{} has EFLOPS_STEER={}, this rank {}: all ranks must have the same",
                    group_.name(peer).text(), steers_ ? "off" : "on", steers_ ? "on" : "off"));
}

result<bool> links::take_steered(link l) {
    const rank_t peer = l.peer;
    if (!(l.lane & one_way_bit)) return false;  // of a newer version: closed
    if (!steers_) return steers_unlike(peer);
    if (l.lane != steered_lane()) return false;  // of an earlier generation
    want(peer, traffic::collectives);            // the way back is ours to dial
    table& t = table_[size_t(traffic::collectives)];
    std::vector<link>& have = t.arriving[size_t(peer)];
    have.push_back(std::move(l));
    size_t missing[2] = {1, 1};  // in, out: until one has said how many there are
    for (const link& x : have) {
        size_t& m = missing[x.dialled];
        m = x.count - size_t(std::count_if(have.begin(), have.end(),
                                           [&](const link& y) { return y.dialled == x.dialled; }));
    }
    if (missing[0] || missing[1]) return false;
    std::sort(have.begin(), have.end(),
              [](const link& a, const link& b) { return a.index < b.index; });
    std::vector<fd> out, in;
    std::vector<int>& numbers = steered_sockets_[size_t(peer)];
    numbers.clear();
    for (link& x : have) {
        numbers.push_back(x.socket.get());
        (x.dialled ? out : in).push_back(std::move(x.socket));
    }
    have.clear();
    --missing_;
    log(EF_LOG_DEBUG, "links: rank {} reaches {} through {}, steered", group_.rank(),
        group_.name(peer).text(), medium(peer));
    t.owned[size_t(peer)] =
        make_tcp_channel(group_.name(peer), std::move(out), std::move(in), medium(peer), waiter_);
    t.ready[size_t(peer)] = t.owned[size_t(peer)].get();
    return true;
}

/// All ranks have come here, and to the same place.
status links::meet(const char* what) {
    const bytes mine = writer().put(generation_).take();
    result<bytes> all = group_.exchange(mine);
    if (!all.ok()) return all.why().in(what);
    reader in(*all);
    for (rank_t r = 0; r < group_.nranks(); ++r) {
        const auto theirs = in.get<uint32_t>();
        if (theirs != generation_)
            return status(EF_MISMATCH,
                          fmt::format("{}: {} has chosen paths {} times, this rank {}", what,
                                      group_.name(r).text(), theirs, generation_));
    }
    return {};
}

// Nobody may see a connection break that it still uses, nor dial before its peer has closed: so all
// meet before and after. A reset leaves no TIME_WAIT, which would keep the ports from being used.
status links::close_steered() {
    if (status s = meet("before closing steered channels"); !s.ok()) return s;
    table& t = table_[size_t(traffic::collectives)];
    const linger at_once{1, 0};
    for (size_t peer = 0; peer < t.ready.size(); ++peer) {
        if (group_.local(rank_t(peer))) continue;
        for (const int s : steered_sockets_[peer])
            setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        steered_sockets_[peer].clear();
        missing_ += t.ready[peer] != nullptr;  // it will be dialled again
        t.ready[peer] = nullptr;
        t.owned[peer].reset();
        t.arriving[peer].clear();
    }
    ++generation_;
    return meet("after closing steered channels");
}

status links::choose(const path::steer_options& o) {
    path::steer_options options = o;
    if (traces_only_) options.candidates = 1;
    result<path::steering> s = path::steer(group_, flows_, options);
    if (!s.ok()) return s.why();
    chosen_ = std::move(*s);
    table& t = table_[size_t(traffic::collectives)];
    for (rank_t peer = 0; peer < group_.nranks(); ++peer) {
        if (t.wanted[size_t(peer)] && !group_.local(peer)) dial_steered(peer);
    }
    return {};
}

status links::steer(std::span<const path::peer_rounds> mine, const path::steer_options& o) {
    if (!steers_) return status(EF_INVALID, "paths cannot be chosen with EFLOPS_STEER=off");
    flows_.assign(mine.begin(), mine.end());
    if (status s = close_steered(); !s.ok()) return s;
    return choose(o);
}

result<std::vector<path::checked_path>> links::resteer(const path::steer_options& o) {
    if (!chosen_) return status(EF_INVALID, "paths cannot be chosen anew before they were chosen");
    if (status s = close_steered(); !s.ok()) return s;
    result<std::vector<path::checked_path>> changed = path::recheck(group_, *chosen_, o);
    if (!changed.ok()) return changed;
    if (status s = choose(o); !s.ok()) return s;
    return changed;
}

}  // namespace ef
