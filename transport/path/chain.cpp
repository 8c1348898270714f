#include "transport/path/chain.hpp"

#include <algorithm>

namespace ef::path {
namespace {

constexpr uint32_t nobody = ~uint32_t(0);
constexpr size_t longest = 512;  // moves of one chain

bool holds(std::span<const uint32_t> sorted, uint32_t c) noexcept {
    return std::binary_search(sorted.begin(), sorted.end(), c);
}

}  // namespace

void chains::shift(uint32_t f, uint32_t w) {
    log_.push_back({f, on_->chosen()[f]});
    moved_[f] = true;
    on_->move(f, w);
}

void chains::undo() {
    for (; !log_.empty(); log_.pop_back()) {
        moved_[log_.back().flow] = false;
        on_->move(log_.back().flow, log_.back().from);
    }
}

// A flow that has not moved yet on a link that `by` has entered and that is too full; `where`: that
// link.
uint32_t chains::displaced(const step& by, uint32_t& where) const noexcept {
    const auto left = on_->cells(by.flow, by.from);
    for (const uint32_t c : on_->cells(by.flow, on_->chosen()[by.flow])) {
        const cell& x = on_->at(c);
        if (x.above() == 0 || holds(left, c)) continue;
        for (const uint32_t g : x.who)
            if (!moved_[g] && on_->ways(g) > 1) {
                where = c;
                return g;
            }
    }
    return nobody;
}

// A free one; else over the links that `by` has left; else the cheapest.
uint32_t chains::way_for(uint32_t g, uint32_t avoid, const step& by) {
    const uint32_t now = on_->chosen()[g];
    const auto left = on_->cells(by.flow, by.from);
    uint32_t best = nobody, most = 0;
    uint64_t least = 0;
    on_->lift(g);
    for (uint32_t w = 0; w < on_->ways(g); ++w) {
        const auto mine = on_->cells(g, w);
        if (w == now || holds(mine, avoid)) continue;
        const uint64_t p = on_->price(g, w);
        uint32_t common = 0;
        for (const uint32_t c : mine) common += holds(left, c);
        if (p == 0) common = nobody;
        if (best == nobody || common > most || (common == most && p < least)) {
            best = w;
            most = common;
            least = p;
        }
    }
    on_->put(g, now);
    return best;
}

// The first flow has moved; the others follow until cost() < least. The second may be sent along
// its way `second`, since at the start nothing says yet which two ways will alternate.
bool chains::follow(uint64_t least, uint32_t second, uint32_t& seconds) {
    for (size_t at = 0; at < log_.size() && log_.size() < longest;) {
        if (on_->cost() < least) return true;
        uint32_t where = 0;
        const step by = log_[at];
        const uint32_t g = displaced(by, where);
        if (g == nobody) {
            ++at;
            continue;
        }
        uint32_t w = nobody;
        if (log_.size() == 1) {
            seconds = on_->ways(g);
            if (second < seconds && second != on_->chosen()[g] &&
                !holds(on_->cells(g, second), where))
                w = second;
        } else {
            w = way_for(g, where, by);
        }
        if (w == nobody) return false;
        shift(g, w);
    }
    return on_->cost() < least;
}

bool chains::relieve(uint32_t f, uint64_t& effort) {
    const uint64_t before = on_->cost();
    const uint32_t from = on_->chosen()[f];
    for (uint32_t w = 0; w < on_->ways(f); ++w) {
        if (w == from) continue;
        // How many ways the second flow has is known after the first try.
        uint32_t seconds = 1;
        for (uint32_t second = 0; second < seconds; ++second) {
            if (effort == 0) return false;
            shift(f, w);
            const bool good = follow(before, second, seconds);
            effort -= std::min<uint64_t>(effort, log_.size());
            if (good) {
                for (const step& s : log_) moved_[s.flow] = false;
                log_.clear();
                return true;
            }
            undo();
        }
    }
    return false;
}

}  // namespace ef::path
