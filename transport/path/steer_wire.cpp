#include "transport/path/steer_wire.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ef::path {
namespace {

// More than any real record has; what is above was not written by us.
constexpr uint32_t most_entries = 1u << 20;
constexpr uint32_t most_hops = 64;

bool valid(rank_t r, rank_t nranks) noexcept { return r >= 0 && r < nranks; }

bool parse_way(reader& in, std::vector<std::string>& hops) {
    const auto n = in.get<uint32_t>();
    if (n > most_hops) return false;
    for (uint32_t i = 0; i < n && in.ok(); ++i) hops.push_back(in.text());
    return in.ok();
}

bool parse_flow(reader& in, rank_t nranks, found_flow& f) {
    f.to = rank_t(in.get<uint32_t>());
    const auto rounds = in.get<uint32_t>();
    if (!in.ok() || !valid(f.to, nranks) || rounds > in.left() / 4) return false;
    for (uint32_t i = 0; i < rounds; ++i) f.rounds.push_back(in.get<uint32_t>());
    const auto ways = in.get<uint32_t>();
    if (ways > in.left() / 4) return false;
    f.ways.resize(ways);
    for (auto& w : f.ways)
        if (!parse_way(in, w)) return false;
    f.why = in.text();
    return in.ok();
}

}  // namespace

bytes write_found(std::span<const found_flow> flows) {
    writer w;
    w.put(uint32_t(flows.size()));
    for (const found_flow& f : flows) {
        w.put(uint32_t(f.to)).put(uint32_t(f.rounds.size()));
        for (const uint32_t r : f.rounds) w.put(r);
        w.put(uint32_t(f.ways.size()));
        for (const auto& hops : f.ways) {
            w.put(uint32_t(hops.size()));
            for (const std::string& h : hops) w.text(h);
        }
        w.text(f.why);
    }
    return w.take();
}

bool parse_found(std::span<const std::byte> in, rank_t nranks, std::vector<found_flow>& flows) {
    reader r(in);
    const auto n = r.get<uint32_t>();
    if (!r.ok() || n > most_entries) return false;
    for (uint32_t i = 0; i < n; ++i) {
        found_flow f;
        if (!parse_flow(r, nranks, f)) return false;
        flows.push_back(std::move(f));
    }
    return r.finished();
}

bytes write_checked(std::span<const checked_path> paths) {
    writer w;
    w.put(uint32_t(paths.size()));
    for (const checked_path& p : paths)
        w.put(uint32_t(p.from))
            .put(uint32_t(p.to))
            .put(uint32_t(p.state))
            .text(p.last_seen)
            .text(p.next_silent);
    return w.take();
}

bool parse_checked(std::span<const std::byte> in, rank_t nranks, std::vector<checked_path>& paths) {
    reader r(in);
    const auto n = r.get<uint32_t>();
    if (!r.ok() || n > most_entries) return false;
    for (uint32_t i = 0; i < n; ++i) {
        checked_path p;
        p.from = rank_t(r.get<uint32_t>());
        p.to = rank_t(r.get<uint32_t>());
        const auto state = r.get<uint32_t>();
        p.last_seen = r.text();
        p.next_silent = r.text();
        if (!r.ok() || !valid(p.from, nranks) || !valid(p.to, nranks) ||
            state > uint32_t(path_state::unknown))
            return false;
        p.state = path_state(state);
        paths.push_back(std::move(p));
    }
    return r.finished();
}

result<std::vector<bytes>> exchange_records(group& g, const bytes& mine) {
    const bytes length = writer().put(uint32_t(mine.size())).take();
    result<bytes> lengths = g.exchange(length);
    if (!lengths.ok()) return lengths.why();
    std::vector<uint32_t> of_rank;
    reader r(*lengths);
    for (rank_t i = 0; i < g.nranks(); ++i) of_rank.push_back(r.get<uint32_t>());
    const size_t longest = *std::max_element(of_rank.begin(), of_rank.end());
    bytes padded = mine;
    padded.resize(longest);
    result<bytes> all = g.exchange(padded);
    if (!all.ok()) return all.why();
    std::vector<bytes> records;
    for (size_t i = 0; i < of_rank.size(); ++i) {
        const auto from = all->begin() + ptrdiff_t(i * longest);
        records.emplace_back(from, from + ptrdiff_t(of_rank[i]));
    }
    return records;
}

}  // namespace ef::path
