// Gloo over tcp on the loopback interface as a contender: gloo RANKS ring|bcube FOLDER (for the
// rendezvous files)
#include "perftests/compare/forked.hpp"
#include "perftests/compare/worker.hpp"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace {

int run(int rank, int nranks, gloo::AllreduceOptions::Algorithm algorithm, const char* folder) {
    compare::pin(rank, nranks);
    gloo::transport::tcp::attr a;
    a.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(a);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
    context->connectFullMesh(store, device);
    compare::contender c;
    c.allreduce = [&](const float* in, float* out, size_t n) {
        gloo::AllreduceOptions o(context);
        o.setAlgorithm(algorithm);
        o.setInput(const_cast<float*>(in), n);
        o.setOutput(out, n);
        o.setReduceFunction(
            [](void* d, const void* x, const void* y, size_t k) { gloo::sum<float>(d, x, y, k); });
        gloo::allreduce(o);
        return true;
    };
    c.barrier = [&] {
        gloo::BarrierOptions o(context);
        gloo::barrier(o);
        return true;
    };
    return compare::serve(rank, nranks, c);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const auto algorithm = strcmp(argv[2], "ring") == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                                        : gloo::AllreduceOptions::Algorithm::BCUBE;
    return compare::fork_ranks(atoi(argv[1]), [&](int rank) {
        try {
            return run(rank, atoi(argv[1]), algorithm, argv[3]);
        } catch (const std::exception& e) {
            fprintf(stderr, "gloo rank %d: %s\n", rank, e.what());
            return 1;
        }
    });
}
