// calibrate: measures alpha, beta and gamma of this machine when a communicator is made, in some
// ten milliseconds, or takes what an earlier job on the same host kept in a file.
//
// Rank 0 measures with one rank of its host and one of another, while all others sleep in the
// exchange that follows; its numbers become everybody's, since every rank must come to the same
// plan.
//
//   file: one line per medium, "shm alpha cpu send recv", "tcp:eth0 ...", "host gamma copy"; ns and
//   ns per byte. $XDG_CACHE_HOME/eflops/calibration-HOST or ~/.cache/..., or EFLOPS_CALIBRATION;
//   measured again after a week.
// Numbers that only a busy machine can explain are neither used nor kept.
#pragma once

#include "allreduce/comm.hpp"

namespace ef {

/// Collective over `c`, before its first operation.
status calibrate(comm& c, const config& conf);

namespace calibration {
/// The file's lines into `m`. False unless all that `wanted` names (e.g. {"host", "shm"}) is there
/// and sane.
bool parse(std::string_view text, const std::vector<std::string>& wanted, cost::machine_model& m);
std::string format(const cost::machine_model& m, std::string_view intra, std::string_view inter,
                   std::string_view kept);
}  // namespace calibration

}  // namespace ef
