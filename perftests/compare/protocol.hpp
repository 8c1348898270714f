// What the coordinator and the ranks of the contenders say to each other, over a unix stream socket
// of one machine. A rank blocks in read() between its turns, so a contender that is not being
// measured uses no processor.
#pragma once

#include <cstdint>

namespace compare {

enum class order : uint32_t {
    prepare = 1,  // allocate for `bytes`, fill, run once, check the sums
    run = 2,      // one unmeasured run, then `iterations` measured ones
    release = 3,  // free the buffers
    quit = 4
};

struct command {
    order what;
    uint32_t iterations;
    uint64_t bytes;
};

struct hello {
    char contender[56];
    uint32_t rank, nranks;
};

struct answer {
    double seconds;          // run: of all measured iterations
    uint32_t wrong;          // prepare: elements that are not the sum
    uint32_t failed;         // 1: the library returned an error
    uint64_t read, written;  // per run, as the library says; 0: it does not
    char plan[48];
};

}  // namespace compare
