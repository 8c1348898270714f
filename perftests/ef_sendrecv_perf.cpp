// ef_sendrecv_perf(1): time and bandwidth of sendrecv between processes.
#include "perftests/common/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::collective_main(ef::perf::kind::sendrecv, argc, argv);
}
