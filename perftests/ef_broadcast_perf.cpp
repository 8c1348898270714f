// ef_broadcast_perf(1): time and bandwidth of broadcast between processes.
#include "perftests/common/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::collective_main(ef::perf::kind::broadcast, argc, argv);
}
