// What this machine could do, measured as a contender among the others: limit RANKS copy|shared
//
//   copy:   every rank copies its input to its output, then all meet: each byte is read once and
//           written once.
//
//   shared: all buffers lie in one shared mapping; rank r sums its part of all inputs and writes it
//           to all outputs. An allreduce without messages, plans or private memory, which no
//           library with an ordinary interface can be.
#include "perftests/compare/forked.hpp"
#include "perftests/compare/worker.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>

namespace {

constexpr size_t most_bytes = size_t(64) << 20;

struct board {
    alignas(64) std::atomic<uint32_t> arrived;
    alignas(64) std::atomic<uint32_t> round;
};

// All ranks have come. Spins, then yields: ranks may outnumber cores.
void meet(board& b, uint32_t nranks) {
    const uint32_t round = b.round.load();
    if (b.arrived.fetch_add(1) + 1 == nranks) {
        b.arrived.store(0);
        b.round.fetch_add(1);
        return;
    }
    for (int i = 0; b.round.load() == round; ++i)
        if (i > 1000) sched_yield();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const int nranks = atoi(argv[1]);
    const bool shared = strcmp(argv[2], "shared") == 0;
    const size_t each = 2 * most_bytes;
    void* mapped = mmap(nullptr, 4096 + each * size_t(nranks), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return perror("mmap"), 1;
    board& b = *new (mapped) board{};
    std::byte* const memory = static_cast<std::byte*>(mapped) + 4096;
    const auto in_of = [&](int r) { return reinterpret_cast<float*>(memory + each * size_t(r)); };
    const auto out_of = [&](int r) {
        return reinterpret_cast<float*>(memory + each * size_t(r) + most_bytes);
    };

    return compare::fork_ranks(nranks, [&](int rank) {
        compare::pin(rank, nranks);
        compare::contender c;
        int given = 0;      // input first, then output
        bool first = true;  // the run whose sums are checked is an allreduce in both modes
        c.allocate = [&](size_t bytes) -> void* {
            if (bytes > most_bytes) return nullptr;
            first = true;
            return given++ % 2 == 0 ? in_of(rank) : out_of(rank);
        };
        c.release = [](void*) {};
        c.barrier = [&] { return meet(b, uint32_t(nranks)), true; };
        c.allreduce = [&](const float* in, float* out, size_t n) {
            if (!shared && !first) {
                memcpy(out, in, n * sizeof(float));
                asm volatile("" ::"r"(out) : "memory");
                // Ranks that share cores copy one after another: only together are they done.
                meet(b, uint32_t(nranks));
                return true;
            }
            first = false;
            meet(b, uint32_t(nranks));
            const size_t begin = n * size_t(rank) / size_t(nranks),
                         end = n * size_t(rank + 1) / size_t(nranks);
            constexpr size_t block = 4096;  // elements: stays in the first cache
            for (size_t at = begin; at < end; at += block) {
                const size_t k = std::min(block, end - at);
                float* mine = out + at;
                memcpy(mine, in_of(0) + at, k * sizeof(float));
                for (int r = 1; r < nranks; ++r) {
                    const float* theirs = in_of(r) + at;
                    for (size_t i = 0; i < k; ++i) mine[i] += theirs[i];
                }
                for (int r = 0; r < nranks; ++r)
                    if (r != rank) memcpy(out_of(r) + at, mine, k * sizeof(float));
            }
            meet(b, uint32_t(nranks));
            return true;
        };
        return compare::serve(rank, nranks, c);
    });
}
