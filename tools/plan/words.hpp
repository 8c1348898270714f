// words: numbers and facts as people read them, and the parts of JSON that several commands print.
#pragma once

#include "tools/plan/commands.hpp"
#include "tools/plan/job.hpp"

namespace ef::planning {

/// "100 Gb/s", "1.6 Tb/s", "250 Mb/s"
std::string text_of_gbps(double gbps);
/// "70.3 us", "2.58 ms", "1.02 s": three digits
std::string text_of_us(double us);
/// "3.62", "11.3", "1118"
std::string text_of_ratio(double ratio);
/// "allreduce by hdrm on 16 ranks (HDRM on BiGraph S=4 H=2 L=1), routing ecmp, seed 1"
std::string text_of_plan(const options& o, const job& j, const algorithm& a);
/// The order that an algorithm brings itself, or that in which the ranks are.
std::string order_of(const job& j, const algorithm& a);

/// Crowded links (in a round) that are looked for; JSON has all of them, text the first 16.
inline constexpr size_t most_crowded = 4096;
/// What the proof says, and how many crowded links it leaves out.
std::string text_of_loads(load_report r, const fabric::graph& g);

json json_of_plan(const options& o, const job& j, const algorithm& a);
json json_of_loads(const load_report& r, const fabric::graph& g);

}  // namespace ef::planning
