// Time: monotonic nanoseconds and deadlines. Nothing in the library waits without one of these.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace ef {

inline uint64_t now_ns() noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

class deadline {
public:
    static deadline in_ms(uint64_t ms) noexcept { return deadline(now_ns() + ms * 1'000'000); }
    bool passed() const noexcept { return now_ns() >= at_ns_; }
    uint64_t at_ns() const noexcept { return at_ns_; }
    /// What is left, rounded up to a millisecond and at most `cap_ms`: the argument for poll().
    int left_ms(int cap_ms = 1 << 30) const noexcept {
        const uint64_t now = now_ns();
        if (now >= at_ns_) return 0;
        return int(std::min<uint64_t>((at_ns_ - now + 999'999) / 1'000'000, uint64_t(cap_ms)));
    }

private:
    explicit deadline(uint64_t at_ns) noexcept : at_ns_(at_ns) {}
    uint64_t at_ns_;
};

/// Tell the core that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

}  // namespace ef
