// chain: one flow moves, the flow that it displaces takes what the first has left, displaces another
// in turn, and so on until the last finds its links free. On a leaf-spine fabric, where a round is
// an edge colouring of a bipartite multigraph (leaves; spines are the colours), these are the
// alternating paths of two colours by which Konig proved that as many colours as the largest degree
// suffice; elsewhere the same rule is a good guess.
#pragma once

#include "transport/path/occupancy.hpp"

#include <vector>

namespace ef::path {

class chains {
public:
    explicit chains(occupancy& on) : on_(&on), moved_(on.flows()) {}

    /// Move flow f and those that it displaces so that cost() falls. False, and everything as it
    /// was, if no chain does that. `effort` falls by the moves tried; at 0 it gives up.
    bool relieve(uint32_t f, uint64_t& effort);

private:
    struct step {
        uint32_t flow, from;
    };
    bool follow(uint64_t least, uint32_t second, uint32_t& seconds);
    uint32_t displaced(const step& by, uint32_t& where) const noexcept;
    uint32_t way_for(uint32_t g, uint32_t avoid, const step& by);
    void shift(uint32_t f, uint32_t w);
    void undo();

    occupancy* on_;
    std::vector<step> log_;
    std::vector<bool> moved_;
};

}  // namespace ef::path
