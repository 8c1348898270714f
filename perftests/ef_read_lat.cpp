// ef_read_lat(1): latency of reads between two processes.
#include "perftests/p2p/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::p2p::p2p_main(ef::perf::p2p::kind::read_lat, argc, argv);
}
