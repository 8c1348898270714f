#include "transport/bootstrap/group.hpp"

#include "transport/base/log.hpp"
#include "transport/bootstrap/group_impl.hpp"
#include "transport/bootstrap/identity.hpp"
#include "transport/verbs/rails.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>

namespace ef {

std::vector<rank_t> neighbours_of(rank_t r, rank_t nranks) {
    std::vector<rank_t> n;
    for (rank_t d = 1; d < nranks; d *= 2) {
        n.push_back((r + d) % nranks);
        n.push_back((r - d + nranks) % nranks);
    }
    std::sort(n.begin(), n.end());
    n.erase(std::unique(n.begin(), n.end()), n.end());
    return n;
}

std::string rank_list(const std::vector<rank_t>& ranks) {
    constexpr size_t most = 12;
    std::string t = ranks.size() == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < std::min(most, ranks.size()); ++i)
        t += fmt::format("{} {}", i ? "," : "", ranks[i]);
    if (ranks.size() > most) t += fmt::format(" and {} more", ranks.size() - most);
    return t + (ranks.size() == 1 ? " has" : " have");
}

group_impl::group_impl(rank_t rank, rank_t nranks, const config& c, const secret& key, waiter& w)
    : rank_(rank),
      nranks_(nranks),
      config_(c),
      key_(key),
      waiter_(w),
      dialer_(poller_, key_),
      infos_(static_cast<size_t>(nranks)),
      gone_(static_cast<size_t>(nranks)) {
    if (config_.timeout_ms <= 0) config_.timeout_ms = 60'000;
}

group_impl::~group_impl() {
    if (watched_) waiter_.forget(poller_.get(), false);
    sodium_memzero(key_.data(), key_.size());
}

deadline group_impl::patience() const noexcept {
    return deadline::in_ms(uint64_t(config_.timeout_ms));
}

peer_name group_impl::name(rank_t r) const {
    const peer_info& p = info(r);
    return {r, p.host.empty() ? "host not known yet" : p.host, p.pid};
}

bool group_impl::local(rank_t r) const noexcept {
    if (r == rank_) return true;
    if (config_.transport == "shm") return true;
    return config_.transport == "auto" && info(r).host_id == info(rank_).host_id;
}

/// The poller and, for a group of more than one, the two listeners.
status group_impl::open(bool with_listeners, const endpoint* root) {
    if (poller_.get() < 0)
        if (status s = poller_.open(); !s.ok()) return s;
    if (!watched_) {
        if (status s = waiter_.watch(poller_.get(), false, false); !s.ok()) return s;
        watched_ = true;
    }
    if (!with_listeners) return {};
    listener_ = std::make_unique<listener>(poller_, key_,
                                           [this](const hello_message& h) { return judge(h); });
    result<interface_choice> where = choose_interface(config_.interface_, root);
    if (!where.ok()) return where.why();
    result<fd> tcp = listen_on(where->address);
    if (!tcp.ok()) return tcp.why();
    unsigned char random[16];
    randombytes_buf(random, sizeof(random));
    peer_info& me = infos_[size_t(rank_)];
    me.unix_name = "eflops-";
    for (const unsigned char b : random) me.unix_name += fmt::format("{:02x}", b);
    me.address = local_end(tcp->get()).text();
    me.interface_ = where->name;
    result<fd> near = listen_on(abstract_unix(me.unix_name));
    if (!near.ok()) return near.why();
    log(EF_LOG_INFO, "bootstrap: rank {} uses interface {} ({}), because {}", rank_, where->name,
        me.address, where->why);
    if (status s = listener_->add(std::move(*tcp), false); !s.ok()) return s;
    return listener_->add(std::move(*near), true);
}

status group_impl::join(launch& l) {
    const deadline d = patience();
    sequence_ = l.sequence;
    infos_[size_t(rank_)] = describe_self(config_);
    result<std::string> rails = verbs::usable_rails(config_);
    if (!rails.ok()) return rails.why();
    infos_[size_t(rank_)].rails = std::move(*rails);
    if (status s = open(false, nullptr); !s.ok()) return s;
    if (nranks_ > 1) {
        result<std::vector<endpoint>> root = find_root(l, d);
        if (!root.ok()) return root.why();
        // A root that listens on every address says nothing about which interface is meant.
        const endpoint* at = (*root)[0].wildcard() ? nullptr : &(*root)[0];
        if (status s = open(true, at); !s.ok()) return s;
        status s = rank_ == 0 ? serve_root(l, d) : ask_root(l, *root, d);
        if (s.ok()) s = connect_neighbours(d);
        if (s.ok()) s = learn_infos(d);
        if (!s.ok()) {
            abort(s);
            return s;
        }
    }
    joined_ = true;
    log(EF_LOG_INFO, "bootstrap: rank {} of {} has joined ({})", rank_, nranks_, l.source);
    return {};
}

result<std::unique_ptr<group>> group::join(launch l, const config& c, waiter& w) {
    if (sodium_init() < 0) return status(EF_SYSTEM, "libsodium: no source of random numbers");
    if (l.nranks < 1 || l.rank < 0 || l.rank >= l.nranks)
        return status(EF_INVALID, fmt::format("rank {} of {} ranks", l.rank, l.nranks));
    auto g = std::make_unique<group_impl>(l.rank, l.nranks, c, l.key, w);
    if (status s = g->join(l); !s.ok())
        return std::move(s).in(fmt::format("rank {} of {}", l.rank, l.nranks));
    return std::unique_ptr<group>(std::move(g));
}

}  // namespace ef
