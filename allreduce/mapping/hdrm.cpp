#include "allreduce/mapping/hdrm.hpp"

#include <algorithm>
#include <bit>

namespace ef::mapping {

bigraph_place hdrm_place(uint32_t position, uint32_t switches) noexcept {
    const uint32_t g = position / (2 * switches), i = position % (2 * switches) / 2;
    const uint32_t side = uint32_t(std::popcount(position)) & 1;
    return {side, side ? i : (i + g) % switches, g};
}

uint32_t hdrm_position(const bigraph_place& at, uint32_t switches) noexcept {
    const uint32_t g = at.port;
    const uint32_t i = at.side ? at.sw : (at.sw + switches - g % switches) % switches;
    // The bit that gives the position the parity of its side.
    const uint32_t b = uint32_t(std::popcount(i) + std::popcount(g) + int(at.side)) & 1;
    return 2 * switches * g + 2 * i + b;
}

uint32_t hdrm_load(const fabric::bigraph_shape& s) noexcept {
    const uint64_t links = uint64_t(s.switches) * s.lanes;
    return uint32_t(std::max<uint64_t>(1, (s.hosts + links - 1) / links));
}

// Hierholzer's algorithm [1873], with a stack. Vertex a is U a, vertex S + a is L a. The arc h into a
// vertex stands for the host at port h: as many arcs as hosts, each once, so the hosts in the order
// of the arcs are a ring. Hop i runs from the head of arc i to the head of arc i+1, along arc i+1.
// There are at most ceil(H/S) <= L arcs between two switches, and they enter ports that differ by
// multiples of S, so the lane rule port_dst / S mod L gives each a lane. The arcs h = 0 alone visit
// every switch, so there is one circuit.
std::vector<uint32_t> eulerian_order(const fabric::bigraph_shape& s) {
    const uint32_t S = s.switches, H = s.hosts;
    if (H > uint64_t(S) * s.lanes) return {};
    struct visit {
        uint32_t vertex, port;
    };
    std::vector<uint32_t> next(size_t(2) * S, 0);
    std::vector<visit> trail{{0, fabric::none}};
    std::vector<uint32_t> order;
    order.reserve(size_t(2) * S * H);
    while (!trail.empty()) {
        const auto [at, port] = trail.back();
        if (next[at] < H) {
            const uint32_t h = next[at]++;
            trail.push_back({at < S ? S + (at + h) % S : (at - S + 1 + h) % S, h});
            continue;
        }
        trail.pop_back();
        if (port != fabric::none) order.push_back(at * H + port);
    }
    std::reverse(order.begin(), order.end());
    return order;
}

}  // namespace ef::mapping
