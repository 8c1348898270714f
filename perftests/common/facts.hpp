// Facts about this machine that a number is worth nothing without, and the probe that tells how
// near two of its cores are at the moment: neighbours on a shared host change it within seconds.
#pragma once

#include <string>
#include <vector>

namespace ef::perf {

struct machine_facts {
    std::string time_utc;  // 2026-01-31T12:00:00Z
    std::string host;
    std::string kernel;
    std::string cpu;
    std::string library;       // version of libeflops that is loaded
    std::vector<int> cores;    // this process may run on
    double clock_read_ns = 0;  // what one look at the clock costs
};

machine_facts read_machine();

/// Share of the last 10 s in which some task waited for a core (/proc/pressure/cpu), in percent;
/// negative if the kernel does not tell.
double cpu_pressure_percent();

/// Median time in ns for a cache line to go from core `a` to core `b` and back. Takes about 20 ms
/// and two threads; negative where they cannot run there.
double core_round_trip_ns(int a, int b);

/// Bytes that can be allocated without swapping (MemAvailable); 0 if unknown.
unsigned long long available_bytes();

/// Bind the calling thread to one core. False if the kernel refuses.
bool bind_to_core(int core) noexcept;

}  // namespace ef::perf
