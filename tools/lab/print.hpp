// print: a lab and its counters as text and as JSON.
#pragma once

#include "tools/lab/lab.hpp"

#include <string>
#include <vector>

namespace ef::lab {

std::string show_text(const lab& l);
std::string show_json(const lab& l);
/// `planned`: bytes by link to stand beside, or empty. Links that carried nothing, and were not to,
/// are left out of the text unless `all`; the JSON has every link.
std::string counters_text(const lab& l, const std::vector<traffic>& t,
                          const std::vector<double>& planned, bool all);
std::string counters_json(const lab& l, const std::vector<traffic>& t,
                          const std::vector<double>& planned);

}  // namespace ef::lab
