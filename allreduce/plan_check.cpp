#include "allreduce/plan_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>

namespace ef {
namespace {

using node = uint32_t;
constexpr node unwritten = 0;

constexpr rank_t most_exact = 64, most_ranks = 1024;

/// Whose contributions a value has. Up to 64 ranks the set of them, a bit each. Above, the sums
/// modulo 2^64 of two numbers that each rank has drawn: equal to those of everybody's exactly once
/// if it is, and else but with probability 2^-100.
struct contributions {
    uint64_t first = 0, second = 0;
    bool operator==(const contributions&) const = default;
};

// splitmix64 [Steele, Lea, Flood 2014]: plans know nothing of it.
uint64_t drawn(uint64_t which) noexcept {
    uint64_t h = (which + 1) * 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    return h ^ (h >> 31);
}

// All expressions of one check.
class expressions {
public:
    explicit expressions(rank_t nranks) : exact_(nranks <= most_exact) {
        for (rank_t r = 0; r < nranks; ++r) everybody_ = plus(everybody_, of_rank(r));
    }

    node leaf(rank_t r, uint32_t block) {
        return intern({uint64_t(r) | uint64_t(1) << 63, block}, of_rank(r));
    }
    /// unwritten if a contribution would count twice, as far as that is seen here.
    node sum(node a, node b) {
        if (exact_ && (who_[a].first & who_[b].first)) return unwritten;
        return intern({a, b}, plus(who_[a], who_[b]));
    }
    bool complete(node n) const { return who_[n] == everybody_; }

private:
    struct key_hash {
        size_t operator()(const std::pair<uint64_t, uint64_t>& k) const noexcept {
            return drawn(k.first * 0x2545f4914f6cdd1d ^ k.second);
        }
    };

    contributions of_rank(rank_t r) const noexcept {
        if (exact_) return {uint64_t(1) << r, 0};
        return {drawn(2 * uint64_t(r)), drawn(2 * uint64_t(r) + 1)};
    }
    static contributions plus(contributions a, contributions b) noexcept {
        return {a.first + b.first, a.second + b.second};  // of disjoint sets: the union
    }
    node intern(std::pair<uint64_t, uint64_t> key, contributions who) {
        const auto [it, is_new] = known_.try_emplace(key, node(who_.size()));
        if (is_new) who_.push_back(who);
        return it->second;
    }

    bool exact_;
    contributions everybody_;
    std::unordered_map<std::pair<uint64_t, uint64_t>, node, key_hash> known_;
    std::vector<contributions> who_{{}};
};

enum : size_t { space_in, space_out, space_tmp, spaces };

// One rank: its plan, its memory in symbols, and how far it is.
struct actor {
    plan p;
    std::vector<node> memory[spaces];
    std::vector<std::vector<uint32_t>> waits;  // per move: earlier moves that it must not overtake
    std::vector<bool> done;
    std::map<rank_t, std::vector<uint32_t>> sends, receives;  // by peer, in order
    std::vector<uint32_t> locals;
    size_t local_at = 0;
};

struct channel_state {
    size_t send_at = 0, receive_at = 0;
    std::deque<std::vector<node>> posted;  // eager: copied when sent
};

std::string blocks_text(block_range b) {
    return b.count == 1 ? fmt::format("block {}", b.first)
                        : fmt::format("blocks {}..{}", b.first, b.end() - 1);
}

const char* buffer_name(buffer b) {
    return b == buffer::in ? "in" : b == buffer::out ? "out" : "tmp";
}

class checker {
public:
    checker(const plan_request& like, const std::function<plan(rank_t)>& build)
        : like_(like), expressions_(like.nranks) {
        for (rank_t r = 0; r < like.nranks; ++r) {
            actors_.emplace_back();
            actors_.back().p = build(r);
        }
    }

    status run() {
        for (rank_t r = 0; r < like_.nranks; ++r)
            if (status s = prepare(r); !s.ok()) return s;
        if (status s = check_structure(); !s.ok()) return s;
        if (status s = execute(); !s.ok()) return s;
        return check_results();
    }

private:
    bool reduces() const { return like_.coll == EF_ALLREDUCE || like_.coll == EF_REDUCE_SCATTER; }

    size_t space(buffer b) const {
        if (b == buffer::tmp) return space_tmp;
        return b == buffer::in && !like_.in_place ? space_in : space_out;
    }

    status wrong(rank_t r, const move& m, const std::string& what) const {
        return status(EF_INVALID, fmt::format("rank {}: {}: {}", r, text_of(m), what));
    }

    // Whether the caller's buffer has this block at the start (in) or must have it at the end
    // (out).
    bool owns(rank_t r, uint32_t block) const {
        return block / (actors_[size_t(r)].p.nblocks / uint32_t(like_.nranks)) == uint32_t(r);
    }
    bool given(rank_t r, uint32_t block) const {
        if (like_.coll == EF_ALLGATHER) return owns(r, block);
        if (like_.coll == EF_BROADCAST) return r == like_.root;
        return true;
    }
    bool owed(rank_t r, uint32_t block) const {
        return like_.coll != EF_REDUCE_SCATTER || owns(r, block);
    }

    status prepare(rank_t r) {
        actor& a = actors_[size_t(r)];
        const uint32_t n = a.p.nblocks;
        if (a.p.turn != actors_[0].p.turn || a.p.eager != actors_[0].p.eager)
            return status(
                EF_INVALID,
                fmt::format("rank {} and rank 0 do not agree where the second half begins", r));
        if (n != actors_[0].p.nblocks)
            return status(EF_INVALID, fmt::format("rank {} cuts into {} blocks, rank 0 into {}", r,
                                                  n, actors_[0].p.nblocks));
        if ((like_.coll == EF_ALLGATHER || like_.coll == EF_REDUCE_SCATTER) &&
            n % uint32_t(like_.nranks))
            return status(EF_INVALID, fmt::format("rank {}: {} blocks are no multiple of {} ranks",
                                                  r, n, like_.nranks));
        for (auto& m : a.memory) m.assign(n, unwritten);
        for (uint32_t b = 0; b < n; ++b)
            if (given(r, b)) a.memory[space(buffer::in)][b] = expressions_.leaf(r, b);
        a.done.assign(a.p.moves.size(), false);
        uint32_t round = 0;
        for (uint32_t i = 0; i < a.p.moves.size(); ++i) {
            const move& m = a.p.moves[i];
            if (m.what.count == 0 || m.what.end() > n) return wrong(r, m, "no such blocks");
            if (m.round < round) return wrong(r, m, fmt::format("comes after round {}", round));
            if (m.round >= a.p.rounds)
                return wrong(r, m, fmt::format("the plan has {} rounds", a.p.rounds));
            round = m.round;
            const bool local = m.kind == move_kind::copy || m.kind == move_kind::reduce;
            if (local != (m.peer < 0) || m.peer >= like_.nranks || m.peer == r)
                return wrong(r, m, "no such peer");
            if (status s = check_extent(r, m); !s.ok()) return s;
            if (local) a.locals.push_back(i);
            else (m.kind == move_kind::send ? a.sends : a.receives)[m.peer].push_back(i);
        }
        find_hazards(a);
        return {};
    }

    // in is only read, and the buffer that holds one rank's blocks is touched nowhere else: there is no
    // memory of the caller's beyond it.
    status check_extent(rank_t r, const move& m) const {
        const bool reads = m.kind != move_kind::recv, writes = m.kind != move_kind::send;
        if (writes && m.dst == buffer::in) return wrong(r, m, "writes to in");
        for (uint32_t b = m.what.first; b < m.what.end(); ++b) {
            const auto outside = [&](const char* which) {
                return wrong(r, m, fmt::format("{} does not hold block {} on this rank", which, b));
            };
            if (like_.coll == EF_ALLGATHER && reads && m.src == buffer::in && !owns(r, b))
                return outside("in");
            if (like_.coll != EF_REDUCE_SCATTER || owns(r, b)) continue;
            if ((reads && m.src == buffer::out) || (writes && m.dst == buffer::out))
                return outside("out");
        }
        return {};
    }

    // For each move the last writer of each block that it touches and, if it writes, the readers
    // since.
    void find_hazards(actor& a) {
        struct history {
            int writer = -1;
            std::vector<uint32_t> readers;
        };
        std::vector<history> past(spaces * a.p.nblocks);
        a.waits.resize(a.p.moves.size());
        for (uint32_t i = 0; i < a.p.moves.size(); ++i) {
            const move& m = a.p.moves[i];
            std::vector<uint32_t>& waits = a.waits[i];
            const auto touch = [&](buffer where, bool writes) {
                for (uint32_t b = m.what.first; b < m.what.end(); ++b) {
                    history& h = past[space(where) * a.p.nblocks + b];
                    if (h.writer >= 0 && uint32_t(h.writer) != i)
                        waits.push_back(uint32_t(h.writer));
                    if (!writes) {
                        h.readers.push_back(i);
                        continue;
                    }
                    for (uint32_t reader : h.readers)
                        if (reader != i) waits.push_back(reader);
                    h.readers.clear();
                    h.writer = int(i);
                }
            };
            if (m.kind != move_kind::recv) touch(m.src, false);
            if (m.kind == move_kind::reduce) touch(m.dst, false);
            if (m.kind != move_kind::send) touch(m.dst, true);
            // Once per move and not per block.
            std::sort(waits.begin(), waits.end());
            waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
        }
    }

    status check_structure() {
        for (rank_t r = 0; r < like_.nranks; ++r) {
            actor& a = actors_[size_t(r)];
            for (const auto& [peer, list] : a.receives)
                if (!actors_[size_t(peer)].sends.count(r))
                    return wrong(r, a.p.moves[list[0]],
                                 fmt::format("rank {} sends it nothing", peer));
            for (const auto& [peer, list] : a.sends) {
                actor& b = actors_[size_t(peer)];
                const std::vector<uint32_t>& other = b.receives[r];
                for (size_t i = 0; i < list.size(); ++i) {
                    const move& s = a.p.moves[list[i]];
                    if (i >= other.size())
                        return wrong(r, s, fmt::format("rank {} does not receive it", peer));
                    const move& t = b.p.moves[other[i]];
                    if (s.what.first != t.what.first || s.what.count != t.what.count ||
                        s.round != t.round)
                        return wrong(r, s, fmt::format("meets rank {}, {}", peer, text_of(t)));
                }
                if (other.size() > list.size())
                    return wrong(peer, b.p.moves[other[list.size()]],
                                 fmt::format("rank {} does not send it", r));
                channels_.emplace_back(r, peer);
            }
        }
        states_.resize(channels_.size());
        return {};
    }

    bool ready(const actor& a, uint32_t i) const {
        for (uint32_t w : a.waits[i])
            if (!a.done[w]) return false;
        return true;
    }

    std::vector<node> read(const actor& a, buffer where, block_range b) const {
        const auto& memory = a.memory[space(where)];
        return {memory.begin() + b.first, memory.begin() + b.end()};
    }

    status execute() {
        for (bool moved = true; moved;) {
            moved = false;
            for (rank_t r = 0; r < like_.nranks; ++r)
                if (status s = run_locals(r, moved); !s.ok()) return s;
            for (size_t c = 0; c < channels_.size(); ++c)
                if (status s = run_channel(c, moved); !s.ok()) return s;
        }
        for (rank_t r = 0; r < like_.nranks; ++r) {
            const actor& a = actors_[size_t(r)];
            for (uint32_t i = 0; i < a.done.size(); ++i)
                if (!a.done[i]) return wrong(r, a.p.moves[i], "deadlock: it can never take place");
        }
        return {};
    }

    status run_locals(rank_t r, bool& moved) {
        actor& a = actors_[size_t(r)];
        while (a.local_at < a.locals.size() && ready(a, a.locals[a.local_at])) {
            const uint32_t i = a.locals[a.local_at++];
            const move& m = a.p.moves[i];
            if (status s = store(r, m, read(a, m.src, m.what)); !s.ok()) return s;
            a.done[i] = true;
            moved = true;
        }
        return {};
    }

    status run_channel(size_t c, bool& moved) {
        const auto [from, to] = channels_[c];
        channel_state& st = states_[c];
        actor &a = actors_[size_t(from)], &b = actors_[size_t(to)];
        const std::vector<uint32_t>&sends = a.sends[to], &receives = b.receives[from];
        while (a.p.eager && st.send_at < sends.size() && ready(a, sends[st.send_at])) {
            const uint32_t i = sends[st.send_at++];
            st.posted.push_back(read(a, a.p.moves[i].src, a.p.moves[i].what));
            a.done[i] = true;
            moved = true;
        }
        while (st.receive_at < receives.size() && ready(b, receives[st.receive_at])) {
            if (st.posted.empty()) {
                if (a.p.eager || !ready(a, sends[st.send_at])) break;
                const uint32_t i = sends[st.send_at++];
                st.posted.push_back(read(a, a.p.moves[i].src, a.p.moves[i].what));
                a.done[i] = true;
            }
            const uint32_t i = receives[st.receive_at++];
            if (status s = store(to, b.p.moves[i], st.posted.front()); !s.ok()) return s;
            st.posted.pop_front();
            b.done[i] = true;
            moved = true;
        }
        return {};
    }

    // What `m` does with `value` (a message, or for local moves the source).
    status store(rank_t r, const move& m, const std::vector<node>& value) {
        actor& a = actors_[size_t(r)];
        for (uint32_t k = 0; k < m.what.count; ++k) {
            const uint32_t block = m.what.first + k;
            if (value[k] == unwritten)
                return wrong(r, m, fmt::format("block {} has no value yet", block));
            node& to = a.memory[space(m.dst)][block];
            if (m.kind == move_kind::recv || m.kind == move_kind::copy) {
                to = value[k];
                continue;
            }
            const node own = m.kind == move_kind::reduce ? to : a.memory[space(m.src)][block];
            if (own == unwritten)
                return wrong(r, m, fmt::format("block {} of its operand has no value yet", block));
            const node total =
                m.message_first ? expressions_.sum(value[k], own) : expressions_.sum(own, value[k]);
            if (total == unwritten)
                return wrong(r, m,
                             fmt::format("block {}: a contribution would count twice", block));
            if (expressions_.complete(total) != m.last)
                return wrong(r, m,
                             m.last ? fmt::format("block {} is not complete after it", block)
                                    : fmt::format("completes block {} without saying so", block));
            to = total;
        }
        return {};
    }

    status check_results() {
        const uint32_t n = actors_[0].p.nblocks;
        for (uint32_t b = 0; b < n; ++b) {
            node agreed = unwritten;
            for (rank_t r = 0; r < like_.nranks; ++r) {
                if (!owed(r, b)) continue;
                const node got = actors_[size_t(r)].memory[space_out][b];
                const auto fault = [&](const char* what) {
                    return status(EF_INVALID, fmt::format("rank {}: block {} {}", r, b, what));
                };
                if (got == unwritten) return fault("is missing in the result");
                if (reduces() && !expressions_.complete(got)) return fault("lacks contributions");
                if (like_.coll == EF_BROADCAST && got != expressions_.leaf(like_.root, b))
                    return fault("is not the root's");
                if (like_.coll == EF_ALLGATHER &&
                    got != expressions_.leaf(rank_t(b / (n / uint32_t(like_.nranks))), b))
                    return fault("is not its owner's");
                if (agreed == unwritten) agreed = got;
                if (got != agreed)
                    return fault("was combined in another order than on other ranks");
            }
        }
        return {};
    }

    const plan_request& like_;
    std::vector<actor> actors_;
    expressions expressions_;
    std::vector<std::pair<rank_t, rank_t>> channels_;
    std::vector<channel_state> states_;
};

}  // namespace

std::string text_of(const move& m) {
    const std::string what = blocks_text(m.what), src = buffer_name(m.src),
                      dst = buffer_name(m.dst);
    const std::string round = fmt::format("round {}: ", m.round);
    switch (m.kind) {
    case move_kind::send:
        return round + fmt::format("send {} {} to rank {}", src, what, m.peer);
    case move_kind::recv:
        return round + fmt::format("receive {} {} from rank {}", dst, what, m.peer);
    case move_kind::recv_reduce: {
        const char* order = m.message_first ? "message (+) " : "";
        const char* after = m.message_first ? "" : " (+) message";
        return round +
               fmt::format("{} = {}{}{} {} from rank {}", dst, order, src, after, what, m.peer);
    }
    case move_kind::copy:
        return round + fmt::format("copy {} to {} {}", src, dst, what);
    case move_kind::reduce:
        return round + fmt::format("{} = {} (+) {} {}", dst, dst, src, what);
    }
    return round;
}

status check_plans(const plan_request& like, const std::function<plan(rank_t)>& build) {
    if (like.nranks < 1 || like.nranks > most_ranks)
        return status(EF_UNSUPPORTED,
                      fmt::format("{} ranks: the check is for 1 to {}", like.nranks, most_ranks));
    return checker(like, build).run();
}

}  // namespace ef
