// sync: keeps the rounds of a program apart, so that a rank that runs ahead does not put the flows
// of two rounds on one link [facts: a free-running halving-doubling loses a third of what HDRM
// gains]. Part of compile().
//
//   pair      a                               b
//             READY t  ------------------->         "I have come to round t": from whoever will
//                      <-------------------  READY t   receive, to whoever will send to it
//             payload  <------------------>  payload
//             DONE t   ------------------->         "I have it all": a round is over for a rank
//                      <-------------------  DONE t    when it has everything and so have its peers
//
//   barrier   before each round a dissemination barrier of ceil(lg P) tokens: a rank enters it when
//             it has received all of the round before, so when it ends nothing is on its way
#pragma once

#include "allreduce/program.hpp"

namespace ef {

/// Adds the tokens of `like.sync` to a program that was compiled from `like` in one segment, and
/// the dependencies on them. Nothing to do for sync_policy::none.
void keep_rounds_apart(program& p, const plan& like);

}  // namespace ef
