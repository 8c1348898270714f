#include "affinity/fabric/graph.hpp"

#include <fmt/format.h>

namespace ef::fabric {

graph make_bigraph(const bigraph_shape& shape, double gbps) {
    const auto [S, H, L, rails] = shape;
    graph g;
    g.name = fmt::format("bigraph S={} H={} L={}", S, H, L);
    if (rails > 1) g.name += fmt::format(" rails={}", rails);
    g.bigraph = shape;
    for (uint32_t r = 0; r < rails; ++r) {
        const std::string plane = rails > 1 ? fmt::format("r{}", r) : "";
        std::vector<node_id> sw[2];
        for (uint8_t side = 0; side < 2; ++side)
            for (uint32_t i = 0; i < S; ++i)
                sw[side].push_back(
                    g.add_switch(fmt::format("{}{}{}", plane, "UL"[side], i), 1, side));
        for (uint8_t side = 0; side < 2; ++side)
            for (uint32_t i = 0; i < S; ++i)
                for (uint32_t p = 0; p < H; ++p) {
                    const std::string at = fmt::format("{}{}p{}", "UL"[side], i, p);
                    g.add_cable(g.add_host(plane + at, at, r), sw[side][i], gbps);
                }
        for (node_id u : sw[0])
            for (node_id l : sw[1])
                for (uint32_t lane = 0; lane < L; ++lane) g.add_cable(u, l, gbps);
    }
    return g;
}

graph make_leaf_spine(uint32_t leaves, uint32_t hosts, uint32_t spines, uint32_t lanes, double gbps,
                      double spine_gbps) {
    graph g;
    g.name = fmt::format("leafspine leaves={} hosts={} spines={}", leaves, hosts, spines);
    if (lanes > 1) g.name += fmt::format(" lanes={}", lanes);
    std::vector<node_id> leaf, spine;
    for (uint32_t i = 0; i < leaves; ++i) leaf.push_back(g.add_switch(fmt::format("leaf{}", i), 1));
    for (uint32_t i = 0; i < spines; ++i)
        spine.push_back(g.add_switch(fmt::format("spine{}", i), 2));
    for (uint32_t i = 0; i < leaves; ++i)
        for (uint32_t p = 0; p < hosts; ++p)
            g.add_cable(g.add_host(fmt::format("leaf{}p{}", i, p)), leaf[i], gbps);
    for (node_id l : leaf)
        for (node_id s : spine)
            for (uint32_t k = 0; k < lanes; ++k)
                g.add_cable(l, s, spine_gbps > 0 ? spine_gbps : gbps);
    return g;
}

graph make_fat_tree(uint32_t k, double gbps) {
    graph g;
    g.name = fmt::format("fattree k={}", k);
    const uint32_t half = k / 2;
    std::vector<node_id> core;
    for (uint32_t i = 0; i < half * half; ++i)
        core.push_back(g.add_switch(fmt::format("c{}", i), 3));
    for (uint32_t pod = 0; pod < k; ++pod) {
        std::vector<node_id> edge, aggregation;
        for (uint32_t i = 0; i < half; ++i)
            edge.push_back(g.add_switch(fmt::format("p{}e{}", pod, i), 1));
        for (uint32_t i = 0; i < half; ++i)
            aggregation.push_back(g.add_switch(fmt::format("p{}a{}", pod, i), 2));
        for (uint32_t i = 0; i < half; ++i)
            for (uint32_t h = 0; h < half; ++h)
                g.add_cable(g.add_host(fmt::format("p{}e{}h{}", pod, i, h)), edge[i], gbps);
        for (node_id e : edge)
            for (node_id a : aggregation) g.add_cable(e, a, gbps);
        for (uint32_t i = 0; i < half; ++i)
            for (uint32_t j = 0; j < half; ++j)
                g.add_cable(aggregation[i], core[i * half + j], gbps);
    }
    return g;
}

graph make_single(uint32_t hosts, double gbps) {
    graph g;
    g.name = fmt::format("single hosts={}", hosts);
    const node_id sw = g.add_switch("sw0", 1);
    for (uint32_t i = 0; i < hosts; ++i) g.add_cable(g.add_host(fmt::format("h{}", i)), sw, gbps);
    return g;
}

}  // namespace ef::fabric
