// ef_barrier_perf(1): time and bandwidth of barrier between processes.
#include "perftests/common/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::collective_main(ef::perf::kind::barrier, argc, argv);
}
