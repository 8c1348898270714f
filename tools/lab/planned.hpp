// planned: what a plan says that each directed link should have carried, to stand beside what it has.
#pragma once

#include "tools/lab/lab.hpp"

#include <string>
#include <vector>

namespace ef::lab {

/// Bytes on the wire by link, from the JSON of `ef_plan show FABRIC --algorithm NAME --json`: each
/// link's share of the vector, times `vector_bytes` (of all operations together), with the headers
/// of full packets. Errors name the file and the link.
result<std::vector<double>> planned_bytes(const lab& l, const std::string& file,
                                          double vector_bytes);

}  // namespace ef::lab
