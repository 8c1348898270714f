// machine_model: the few numbers by which the planner prices a plan. Measured when a communicator
// is made, or read from a file (calibrate), or these defaults, which are those of a two-core
// virtual machine of 2025.
//
//   alpha   ns from posting a small message to its arrival              Hockney's alpha
//   cpu     ns that each end works for a message, whatever its length
//   beta    ns per byte, on either end                                  Hockney's beta
//   gamma   ns per byte of a reduction whose operands are in the cache  [Thakur, Rabenseifner,
//   Gropp 2005]
#pragma once

#include <cstdint>

namespace ef::cost {

struct medium_model {
    double alpha_ns;
    double cpu_ns;
    double send_ns_per_byte;
    double recv_ns_per_byte;
};

struct machine_model {
    medium_model intra{200, 60, 0.03, 0.03};     // between ranks of a host, by shared memory
    medium_model inter{9000, 4000, 0.10, 0.12};  // between hosts, by tcp
    double gamma_ns_per_byte = 0.04;
    double copy_ns_per_byte = 0.10;  // memory to memory, beyond the caches: one read, one write
    double cache_bytes = 32 << 20;   // last level, of one host
    double switch_ns = 2500;         // from one rank to another on the same core
    double cores = 2;                // of one host
    double measured = 0;             // 0: defaults, 1: measured in this run, 2: from a file
};

}  // namespace ef::cost
