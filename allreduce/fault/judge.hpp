// judge: what a look at a way through the fabric says of its links.
//
// A way that ends before its destination names the link behind the last router that answered; one
// that has become longer names the link at which it leaves the old one: the network has gone round
// it. Only routers whose answers the fabric file knows are witnesses.
#pragma once

#include "allreduce/fabric_view.hpp"
#include "transport/path/probe.hpp"

#include <optional>
#include <string>

namespace ef {

struct link_finding {
    fabric::link_id link = fabric::none;  // `none`: not one that the fabric file knows by address
    bool dead = false;                    // nothing gets through; else there is a longer way
    bool moved = false;                   // there is another way of the same length
    // How sure it is. 0: silence at the cable of either host, where a busy host or a router that
    // rations its answers looks the same; for the text of a timeout only. 1: silence further in.
    // 2: a router says so, or another way is seen.
    uint8_t proof = 2;
    std::string text;  // "link U0-L1 is down: on the way to ..., U0 (10.0.0.0) answers and ..."
};

/// What `now` says of the way from host a to host b, which was `before` when it was last whole
/// (empty: never seen; a BiGraph has only one way between its sides, which then stands for it).
/// Nothing if it is as it should be, or if that cannot be told. Pure.
std::optional<link_finding> judge_way(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                      const path::trace& now, const path::trace& before);

}  // namespace ef
