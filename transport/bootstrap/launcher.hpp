// launcher: who am I, how many are we, where is rank 0, and what is the job's secret; from what
// started the program.
//
// Order: explicit arguments, EFLOPS_RANK/EFLOPS_NRANKS/EFLOPS_ROOT, PMIx (Open MPI's mpirun, srun
// --mpi=pmix), PMI-1 (MPICH's hydra, by PMI_FD), torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS, and a root derived from
// SLURM_STEP_NODELIST/SLURM_JOB_ID), alone (rank 0 of 1).
#pragma once

#include "transport/base/clock.hpp"
#include "transport/base/config.hpp"
#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <array>
#include <functional>
#include <string>

namespace ef {

using secret = std::array<unsigned char, 32>;

struct launch {
    int rank = 0;
    int nranks = 1;
    std::string source;  // "explicit", "environment", "pmix", "pmi", "torchrun", "slurm", "alone":
                         // for messages
    std::string
        root;     // "host:port" of rank 0; rank 0 with an empty root listens anywhere and publishes
    fd listener;  // rank 0: an already listening socket for root, if the caller had one
    uint32_t sequence = 0;  // which communicator of this launcher: two rendezvous at one port do
                            // not mix
    bool one_host = false;  // the launcher says that all ranks run on this host
    secret key{};           // derived from the job's key; all zero never occurs
    // Launchers with a key-value store (PMIx, PMI): publish rank 0's "host:port", and get it. Null
    // otherwise.
    std::function<status(const std::string& value)> publish_root;
    std::function<result<std::string>(deadline)> lookup_root;
};

/// `rank`, `nranks`: EF_FROM_LAUNCHER or explicit. `c` already holds option > environment > default
/// for root, key, key_file. `listen_fd`: borrowed (duplicated) when > 0. Errors say what was found
/// and what is missing.
result<launch> detect_launch(int rank, int nranks, int listen_fd, const config& c);

}  // namespace ef
