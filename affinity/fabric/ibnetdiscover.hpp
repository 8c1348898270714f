// ibnetdiscover: the InfiniBand subnet as ibnetdiscover(8) prints it: a section for each switch and
// adapter, a line for each cabled port of it.
//
//   Switch  36 "S-248a07030091dd00"     # "leaf1" enhanced port 0 lid 7 lmc 0
//   [1]  "H-248a0703008a8530"[1](248a0703008a8530)   # "node1 mlx5_0" lid 12 4xEDR
//   Ca  1 "H-248a0703008a8530"          # "node1 mlx5_0"
//   [1](248a0703008a8530)  "S-248a07030091dd00"[1]   # lid 12 lmc 0 "leaf1" lid 7 4xEDR
//
// Each cable stands there twice, once from each end; one that does not shows that the output was
// cut or that the fabric changed meanwhile, and is refused.
#pragma once

#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/graph.hpp"

namespace ef::fabric {

/// Each cabled port of an adapter is a host: server and adapter by its description ("node1
/// mlx5_0"), rails by adapter and port, in natural order of names whatever the order of discovery.
/// Routers, and the aggregation nodes inside switches, are left out.
result<graph> read_ibnetdiscover(const source& s);

/// Data rate of "4xEDR" and the like, Gb/s: 100; 0 for what is no width and speed.
double infiniband_gbps(std::string_view word) noexcept;

}  // namespace ef::fabric
