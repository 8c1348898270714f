// json: eflops's own description of a fabric, written by people and by programs; eflops-fabric(5)
// has its grammar. What is read is checked against that grammar, and the first thing that does not
// fit is named by line, column and path.
#pragma once

#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/graph.hpp"

namespace ef::fabric {

/// The version that a file's "eflops-fabric" must say.
inline constexpr unsigned json_version = 1;

result<graph> read_json(const source& s);

/// The graph as such a file. Reading it gives the same graph: the same numbers of nodes, links and
/// lanes, and what is down.
std::string write_json(const graph& g);

}  // namespace ef::fabric
