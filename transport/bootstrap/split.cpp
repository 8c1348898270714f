// Split: the old group carries colors, keys and the new listeners' addresses; the new group needs
// no root.
#include "transport/bootstrap/group_impl.hpp"
#include "transport/bootstrap/identity.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>

namespace ef {

status group_impl::prepare_split(split_offer& o) {
    infos_[size_t(rank_)] = describe_self(config_);
    // The same interface as the parent's: config_.interface_ was set to its address.
    if (status s = open(nranks_ > 1, nullptr); !s.ok()) return s;
    randombytes_buf(o.random.data(), o.random.size());
    o.info = infos_[size_t(rank_)];
    return {};
}

status group_impl::finish_split(const std::vector<split_offer>& offers) {
    for (rank_t r = 0; r < nranks_; ++r) infos_[size_t(r)] = offers[size_t(r)].info;
    id_ = offers[0].random;
    for (const rank_t n : neighbours_of(rank_, nranks_))
        neighbours_[n].address = infos_[size_t(n)].address;
    status s = connect_neighbours(patience());
    if (s.ok() && nranks_ > 1) s = check_transport();
    joined_ = s.ok();
    return s;
}

result<std::unique_ptr<group>> group_impl::split(int color, int key, waiter& w) {
    const deadline d = patience();
    result<std::vector<bytes>> said =
        allgather(writer().put(uint32_t(color)).put(uint32_t(key)).take(), d);
    if (!said.ok()) return said.why().in("split");
    struct member {
        int color, key;
        rank_t old;
    };
    std::vector<member> members;
    for (rank_t r = 0; r < nranks_; ++r) {
        reader in((*said)[size_t(r)]);
        const int c = int(in.get<uint32_t>()), k = int(in.get<uint32_t>());
        if (!in.finished())
            return status(EF_MISMATCH, "split: " + name(r).text() + " is not in the same split");
        if (c == color && color >= 0) members.push_back({c, k, r});
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const member& a, const member& b) { return a.key < b.key; });
    std::unique_ptr<group_impl> made;
    split_offer mine;
    if (color >= 0) {
        const auto me = std::find_if(members.begin(), members.end(),
                                     [&](const member& m) { return m.old == rank_; });
        config c = config_;
        if (!infos_[size_t(rank_)].address.empty()) {
            result<host_port> hp = parse_host_port(infos_[size_t(rank_)].address);
            if (hp.ok()) c.interface_ = hp->host;
        }
        made = std::make_unique<group_impl>(rank_t(me - members.begin()), rank_t(members.size()), c,
                                            key_, w);
        if (status s = made->prepare_split(mine); !s.ok()) {
            mine.code = s.code();
            mine.why = name(rank_).text() + ": " + std::string(s.text());
        }
    }
    result<std::vector<bytes>> all = allgather(write_split_offer(mine), d);
    if (!all.ok()) return all.why().in("split");
    std::vector<split_offer> offers(static_cast<size_t>(nranks_));
    for (rank_t r = 0; r < nranks_; ++r) {
        split_offer& o = offers[size_t(r)];
        if (!parse_split_offer((*all)[size_t(r)], o))
            return status(EF_MISMATCH, "split: " + name(r).text() + " is not in the same split");
        if (o.code != EF_OK) return status(o.code, o.why).in("split");
    }
    if (!made) return std::unique_ptr<group>();
    std::vector<split_offer> chosen;
    for (const member& m : members) chosen.push_back(offers[size_t(m.old)]);
    if (status s = made->finish_split(chosen); !s.ok()) {
        made->abort(s);
        return s.in("split");
    }
    return std::unique_ptr<group>(std::move(made));
}

}  // namespace ef
