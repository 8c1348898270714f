// ef_reduce_scatter_perf(1): time and bandwidth of reduce_scatter between processes.
#include "perftests/common/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::collective_main(ef::perf::kind::reduce_scatter, argc, argv);
}
