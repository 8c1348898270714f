// ef_plan: what a collective will do to a fabric, before anything is sent.
#include "tools/plan/commands.hpp"

int main(int argc, char** argv) { return ef::planning::plan_main(argc, argv); }
