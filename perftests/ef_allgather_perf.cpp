// ef_allgather_perf(1): time and bandwidth of allgather between processes.
#include "perftests/common/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::collective_main(ef::perf::kind::allgather, argc, argv);
}
