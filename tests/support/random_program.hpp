// random_program: what the ranks of a job do together, drawn from a seed that all of them know, so
// that every rank knows every other's part and inputs without asking.
//
//   layout      how many ranks, on which imitated hosts, as processes or threads
//   world       several communicators of all ranks: the planner's choice, and forced algorithms,
//               chunks and transports; and splits of them
//   program     a few statements: collectives and exchanges, many in flight at once
#pragma once

#include "tests/support/reference.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ef::test {

/// splitmix64: the same numbers everywhere.
class numbers {
public:
    explicit numbers(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    uint64_t below(uint64_t n) { return next() % n; }
    bool percent(unsigned p) { return below(100) < p; }

private:
    uint64_t state_;
};

inline uint64_t mix(uint64_t a, uint64_t b) { return numbers(a ^ (b * 0xd1342543de82ef95)).next(); }

struct layout {
    const char* name;
    std::vector<int> host_of;  // by rank
    bool as_threads = false;
};

/// One communicator of a world; made by ef_comm_create, or by a split of an earlier one.
struct communicator_recipe {
    int parent = -1;  // split of this one; -1: of all ranks
    int root = 0;     // number of the listener, for ef_comm_create
    std::string algorithm;
    uint64_t chunk_bytes = 0;
    bool tcp = false;
    std::vector<int> color, key;  // by rank of the parent, for a split
};
std::vector<communicator_recipe> draw_world(uint64_t seed, int nranks, int creations);

/// Ranks of the job in a recipe's communicator that `rank` is in, in order; empty if it is in none.
std::vector<int> members_of(const std::vector<communicator_recipe>& world, size_t which, int nranks,
                            int rank);

enum class memory_kind { ordinary, offset, shared };

struct statement {
    size_t comm = 0;
    bool exchange = false;  // send to rank + shift, receive from rank - shift; else a collective
    bool blocking = false;
    ef_collective_t coll = EF_ALLREDUCE;
    ef_type_t type = EF_FLOAT32;
    ef_op_t op = EF_SUM;
    size_t count = 0;
    uint64_t seed = 0;             // of the inputs, and of what each rank decides for itself
    unsigned root = 0, shift = 0;  // modulo the communicator's size
    bool special = false;          // NaN, infinities and zeros among the inputs

    std::string text() const;
    bool in_place(int rank) const { return mix(seed, 1000 + uint64_t(rank)) % 3 == 0; }
    memory_kind memory(int rank) const;
};

struct random_program {
    bool threaded = false;  // each rank runs the communicators on two threads
    std::vector<statement> statements;
};
random_program draw_program(uint64_t seed, size_t communicators);

/// Input of member `rank` for a vector of `bytes_wanted` bytes.
bytes draw_input(const statement& s, int rank, size_t bytes_wanted);

uint64_t hash_of(const void* data, size_t n);

}  // namespace ef::test
