// eflops as a contender: eflops RANKS TRANSPORT malloc|shared
#include "perftests/compare/forked.hpp"
#include "perftests/compare/worker.hpp"

#include <arpa/inet.h>
#include <eflops/allreduce.h>
#include <eflops/transport.h>
#include <netinet/in.h>

#include <string>

namespace {

int complain(int rank, const char* call) {
    fprintf(stderr, "eflops rank %d: %s: %s\n", rank, call, ef_last_error());
    return 1;
}

int run(int rank, int nranks, const char* transport, bool shared, const std::string& root,
        int listener) {
    compare::pin(rank, nranks);
    ef_comm_options o{};
    o.size = sizeof(o);
    o.root = root.c_str();
    o.key = "a benchmark on one machine";
    o.transport = transport;
    o.listen_fd = rank == 0 ? listener : 0;
    ef_comm_t comm = nullptr;
    if (ef_comm_create(rank, nranks, &o, &comm) != EF_OK) return complain(rank, "ef_comm_create");

    compare::contender c;
    c.allreduce = [&](const float* in, float* out, size_t n) {
        return ef_allreduce(in, out, n, EF_FLOAT32, EF_SUM, comm) == EF_OK ||
               complain(rank, "ef_allreduce") == 0;
    };
    c.barrier = [&] { return ef_barrier(comm) == EF_OK; };
    if (shared) {
        c.allocate = [](size_t bytes) {
            void* p = nullptr;
            return ef_mem_alloc(bytes, &p) == EF_OK ? p : nullptr;
        };
        c.release = [](void* p) { ef_mem_free(p); };
    }
    c.describe = [&](size_t n, compare::answer& a) {
        ef_plan_info info{};
        info.size = sizeof(info);
        if (ef_comm_plan(comm, EF_ALLREDUCE, n, EF_FLOAT32, EF_SUM, shared, &info) != EF_OK) return;
        a.read = info.bytes_read;
        a.written = info.bytes_written;
        snprintf(a.plan, sizeof(a.plan), "%s", info.algorithm);
    };
    const int status = compare::serve(rank, nranks, c);
    ef_comm_destroy(comm);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const int nranks = atoi(argv[1]);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(a);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, reinterpret_cast<sockaddr*>(&a), n) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&a), &n) != 0)
        return perror("listen"), 1;
    const std::string root = "127.0.0.1:" + std::to_string(ntohs(a.sin_port));
    return compare::fork_ranks(nranks, [&](int rank) {
        return run(rank, nranks, argv[2], strcmp(argv[3], "shared") == 0, root, listener);
    });
}
