// slurm: the network as Slurm's topology.conf(5) tells it, in either of its forms.
//
//   SwitchName=s1 Nodes=n[1-4,7]          BlockName=b1 Nodes=n[1-18]
//   SwitchName=s2 Nodes=n[5-6,8-9]        BlockName=b2 Nodes=n[19-36]
//   SwitchName=top Switches=s[1-2]        BlockSizes=18
//
// Slurm wants to place jobs with it, not to predict their traffic, so that it has no speeds (a
// LinkSpeed's unit is arbitrary; here it is Gb/s) and no numbers of cables. What is assumed instead
// is said in the graph's name.
#pragma once

#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/graph.hpp"

namespace ef::fabric {

/// topology/tree: one cable for each node and switch that a line lists, at its LinkSpeed, else
/// assumed_gbps. topology/block: a switch for each block and, from two blocks on, one core switch
/// that joins them with as many cables to each block as that has nodes.
result<graph> read_slurm(const source& s);

/// A host list expression ("n[1-4,07],gpu[1-2]b[0-3]") in its order, appended to `out`. The reason,
/// without a place, if it is none or if `out` would hold more than `most`.
status expand_hostlist(std::string_view text, size_t most, std::vector<std::string>& out);

}  // namespace ef::fabric
