// occupancy: which flows are on which link in which round, and what that costs. Rounds in which the
// same flows send are one (a class): a plan repeats them often.
//
// A cell is a link in one class of rounds, with room for one flow (or for more, if the search asks
// how many must meet) or for those that have no way around it: a host's own uplink carries its flows
// whatever is chosen. Its cost is a (a + 1) / 2, a being the flows above its room; and `over_limit`
// for each flow above a limit, so that no cell is filled over it to empty others.
#pragma once

#include "transport/path/assign.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ef::path {

struct cell {
    std::vector<uint32_t> who;  // the flows on it now
    uint32_t forced = 0;        // flows that have no way around it
    uint32_t room = 1;
    uint32_t round = 0;  // the first of its class
    link_number link = 0;

    uint32_t load() const noexcept { return uint32_t(who.size()); }
    uint32_t above() const noexcept { return load() > room ? load() - room : 0; }
};

class occupancy {
public:
    static constexpr uint64_t over_limit = uint64_t(1) << 32;

    /// No flow is anywhere yet. `flows` are not looked at again.
    explicit occupancy(std::span<const flow_ways> flows);

    uint32_t flows() const noexcept { return uint32_t(ways_.size()); }
    uint32_t ways(uint32_t f) const noexcept { return uint32_t(ways_[f].size()); }
    std::span<const uint32_t> cells(uint32_t f, uint32_t w) const noexcept { return ways_[f][w]; }
    const cell& at(uint32_t c) const noexcept { return cells_[c]; }
    /// The way of each flow now; 0 for a flow without ways.
    const std::vector<uint32_t>& chosen() const noexcept { return chosen_; }
    /// Of all cells, in the sense of the head of this file.
    uint64_t cost() const noexcept { return cost_; }
    uint32_t worst() const noexcept;
    /// Flows on the fullest cell that have no way around it: worst() is never less.
    uint32_t least_worst() const noexcept;

    /// What the flow would add there. It must not be anywhere just now.
    uint64_t price(uint32_t f, uint32_t w) const noexcept;
    void put(uint32_t f, uint32_t w);
    void lift(uint32_t f) noexcept;
    void move(uint32_t f, uint32_t w) {
        lift(f);
        put(f, w);
    }
    /// Put every flow where `chosen` says.
    void restore(const std::vector<uint32_t>& chosen);
    /// From now on a cell has room for `room` flows, and should never carry more than `limit`.
    void set_room(uint32_t room, uint32_t limit);

private:
    void make_cells(std::span<const flow_ways> flows);

    std::vector<std::vector<std::vector<uint32_t>>> ways_;  // flow, way: cells, ascending
    std::vector<cell> cells_;
    std::vector<uint32_t> chosen_;
    std::vector<bool> placed_;
    uint64_t cost_ = 0;
    uint32_t limit_ = ~uint32_t(0);
};

}  // namespace ef::path
