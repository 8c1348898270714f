// commands: each prints to stdout and returns an exit status (perf::exit_code). What they cannot do
// they throw as perf::failure.
#pragma once

#include "tools/plan/options.hpp"

#include <nlohmann/json.hpp>

namespace ef::planning {

int show(const options& o);
int prove(const options& o);
int price(const options& o);
int compare(const options& o);
int map_ranks(const options& o);

/// main() of ef_plan.
int plan_main(int argc, char** argv);

using json = nlohmann::ordered_json;
/// {"eflops_plan": 1, "version", "command", "options"}: the schema's number, and every option of
/// the command as it is in force. Keys carry units; a key is never renamed within a number, only
/// added.
json json_head(const options& o);
/// To stdout; bytes that are no UTF-8 are replaced.
void print_json(const json& j);

}  // namespace ef::planning
