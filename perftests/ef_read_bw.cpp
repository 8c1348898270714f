// ef_read_bw(1): bandwidth of reads between two processes.
#include "perftests/p2p/program.hpp"

int main(int argc, char** argv) {
    return ef::perf::p2p::p2p_main(ef::perf::p2p::kind::read_bw, argc, argv);
}
