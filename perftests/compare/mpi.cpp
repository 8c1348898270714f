// Any MPI as a contender, started by its own launcher.
#include "perftests/compare/worker.hpp"

#include <mpi.h>
#include <sys/prctl.h>

#include <csignal>

int main(int argc, char** argv) {
    // Launchers give each rank a process group or a session of its own; without them it is no use.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
    int rank = 0, nranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    compare::pin(rank, nranks);
    compare::contender c;
    c.allreduce = [](const float* in, float* out, size_t n) {
        return MPI_Allreduce(in, out, int(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
    };
    c.barrier = [] { return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS; };
    const int status = compare::serve(rank, nranks, c);
    MPI_Finalize();
    return status;
}
