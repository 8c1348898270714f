// load: a fabric from what a user gives in one word, which is a generator or a file.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <string>
#include <string_view>

namespace ef::fabric {

enum class file_format : uint8_t { recognise, json, ibnetdiscover, slurm };

/// "bigraph:S=4,H=2" (make_from_text), else the file of that name. Blocks for as long as reading
/// takes. EF_INVALID: one line, "file:line: reason" for what a file says.
result<graph> load_fabric(std::string_view path_or_text,
                          file_format format = file_format::recognise);

/// The same for the text of a file, which messages call `name`.
result<graph> parse_fabric(std::string name, std::string text,
                           file_format format = file_format::recognise);

/// The graph as JSON file of eflops-fabric(5); reading it gives the same graph.
std::string write_fabric(const graph& g);

}  // namespace ef::fabric
