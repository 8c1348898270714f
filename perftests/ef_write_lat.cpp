// ef_write_lat(1): latency of writes between two processes.
#include "perftests/p2p/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::p2p::p2p_main(ef::perf::p2p::kind::write_lat, argc, argv);
}
