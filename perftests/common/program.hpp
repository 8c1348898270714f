// The body of a collective's program.
#pragma once

#include "perftests/common/collective.hpp"

namespace ef::perf {

/// main() of `what`: parse, start ranks if asked to, measure, report; returns the exit status.
int collective_main(kind what, int argc, char** argv);

}  // namespace ef::perf
