#include "allreduce/sync.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ef {
namespace {

// A dependency by position that only a finished step meets.
constexpr int64_t whole = std::numeric_limits<int64_t>::max() / 2;

struct round_steps {
    std::vector<uint32_t> sends, receives;
};

class separator {
public:
    separator(program& p, const plan& like) : p_(p), like_(like), waits_(p.steps.size()) {
        for (uint32_t i = 0; i < p.steps.size(); ++i) {
            const step& s = p.steps[i];
            const auto first = p.dependencies.begin() + s.first_dependency;
            waits_[i].assign(first, first + s.dependencies);
        }
        for (const lane& l : p.lanes) {
            for (uint32_t i : l.sends) rounds_[p.steps[i].round].sends.push_back(i);
            for (uint32_t i : l.receives) rounds_[p.steps[i].round].receives.push_back(i);
        }
        for (lane& l : p.lanes) {
            l.sends.clear();
            l.receives.clear();
        }
    }

    void pairs() {
        for (const auto& [round, r] : rounds_) {
            const std::vector<uint16_t> from = lanes_of(r.receives), to = lanes_of(r.sends);
            std::map<uint16_t, uint32_t> ready;
            for (uint16_t l : from) wait(token(move_kind::send, l, round), gate_);
            for (uint16_t l : to) ready[l] = token(move_kind::recv, l, round);
            for (uint32_t s : r.sends) {
                wait(s, gate_);
                wait(s, {ready[p_.steps[s].lane]});
            }
            payload(r);
            gate_ = r.receives;
            for (uint16_t l : from) {
                const uint32_t done = token(move_kind::send, l, round);
                for (uint32_t i : r.receives)
                    if (p_.steps[i].lane == l) wait(done, {i});
            }
            for (uint16_t l : to) gate_.push_back(token(move_kind::recv, l, round));
        }
        flatten();
    }

    void barriers() {
        for (uint32_t round = 0; round < like_.all_rounds; ++round) {
            std::vector<uint32_t> heard = barrier(round);
            const round_steps& r = rounds_[round];
            for (uint32_t s : r.sends) {
                wait(s, gate_);  // the others' tokens say nothing of this rank's own receives
                wait(s, heard);
            }
            payload(r);
            gate_ = std::move(heard);
            gate_.insert(gate_.end(), r.receives.begin(), r.receives.end());
        }
        flatten();
    }

private:
    // Dissemination [Hensgen, Finkel, Manber 1988]. Returns the receives after all of which every
    // other rank is known to have entered.
    std::vector<uint32_t> barrier(uint32_t round) {
        std::vector<uint32_t> heard;
        for (rank_t d = 1; d < like_.nranks; d <<= 1) {
            const rank_t to = (like_.rank + d) % like_.nranks,
                         from = (like_.rank - d + like_.nranks) % like_.nranks;
            const uint32_t out = token(move_kind::send, lane_to(to), round);
            wait(out, gate_);
            wait(out, heard);
            heard.push_back(token(move_kind::recv, lane_to(from), round));
        }
        return heard;
    }

    void payload(const round_steps& r) {
        for (uint32_t i : r.sends) p_.lanes[p_.steps[i].lane].sends.push_back(i);
        for (uint32_t i : r.receives) p_.lanes[p_.steps[i].lane].receives.push_back(i);
    }

    std::vector<uint16_t> lanes_of(const std::vector<uint32_t>& steps) const {
        std::vector<uint16_t> lanes;
        for (uint32_t i : steps) lanes.push_back(p_.steps[i].lane);
        std::sort(lanes.begin(), lanes.end());
        lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
        return lanes;
    }

    uint16_t lane_to(rank_t peer) {
        for (size_t i = 0; i < p_.lanes.size(); ++i)
            if (p_.lanes[i].peer == peer) return uint16_t(i);
        p_.lanes.push_back({peer, {}, {}});
        return uint16_t(p_.lanes.size() - 1);
    }

    uint32_t token(move_kind kind, uint16_t at, uint32_t round) {
        step s{};
        s.kind = kind;
        s.token = true;
        s.lane = at;
        s.round = round;
        s.bytes = token_bytes;
        const uint32_t index = uint32_t(p_.steps.size());
        p_.steps.push_back(s);
        waits_.emplace_back();
        lane& l = p_.lanes[at];
        (kind == move_kind::send ? l.sends : l.receives).push_back(index);
        return index;
    }

    void wait(uint32_t step, const std::vector<uint32_t>& for_these) {
        for (uint32_t y : for_these) waits_[step].push_back({y, whole});
    }

    void flatten() {
        p_.dependencies.clear();
        for (uint32_t i = 0; i < p_.steps.size(); ++i) {
            p_.steps[i].first_dependency = uint32_t(p_.dependencies.size());
            p_.steps[i].dependencies = uint32_t(waits_[i].size());
            p_.dependencies.insert(p_.dependencies.end(), waits_[i].begin(), waits_[i].end());
        }
    }

    program& p_;
    const plan& like_;
    std::vector<std::vector<dependency>> waits_;  // by step
    std::map<uint32_t, round_steps> rounds_;
    std::vector<uint32_t> gate_;  // what must be over before the next round begins
};

}  // namespace

void keep_rounds_apart(program& p, const plan& like) {
    if (like.sync == sync_policy::pair) separator(p, like).pairs();
    if (like.sync == sync_policy::barrier) separator(p, like).barriers();
}

}  // namespace ef
