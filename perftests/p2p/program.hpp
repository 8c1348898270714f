// The whole of a point-to-point program.
#pragma once

#include "perftests/p2p/test.hpp"

namespace ef::perf::p2p {

/// Returns the exit status.
int p2p_main(kind what, int argc, char** argv);

}  // namespace ef::perf::p2p
