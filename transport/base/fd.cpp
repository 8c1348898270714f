#include "transport/base/fd.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace ef {
namespace {

// One bit per open descriptor of ours. Descriptors above the table are only closed on exec; 64 Ki
// is the usual hard limit of a process. Set and cleared without a lock, since a fork may come at
// any moment.
constexpr int max_tracked = 65536;
std::atomic<uint64_t> ours[max_tracked / 64];
std::atomic<unsigned> generation{0};

void in_child() {
    generation.fetch_add(1, std::memory_order_relaxed);
    for (int w = 0; w < max_tracked / 64; ++w) {
        uint64_t bits = ours[w].exchange(0, std::memory_order_relaxed);
        for (; bits; bits &= bits - 1) ::close(w * 64 + __builtin_ctzll(bits));
    }
}

void watch_forks() noexcept {
    static const int once = pthread_atfork(nullptr, nullptr, in_child);
    (void)once;
}

void track(int n, bool open) noexcept {
    if (n < 0 || n >= max_tracked) return;
    const uint64_t bit = uint64_t(1) << (n % 64);
    if (open) ours[n / 64].fetch_or(bit, std::memory_order_relaxed);
    else ours[n / 64].fetch_and(~bit, std::memory_order_relaxed);
}

// In a child the descriptor was closed by in_child() and its number may already belong to the
// application.
bool still_ours(int n) noexcept {
    if (n >= max_tracked) return true;
    return ours[n / 64].load(std::memory_order_relaxed) & (uint64_t(1) << (n % 64));
}

}  // namespace

fd::fd(int n) noexcept : n_(n) {
    watch_forks();
    track(n, true);
}

void fd::reset() noexcept {
    if (n_ < 0) return;
    if (still_ours(n_)) {
        track(n_, false);
        ::close(n_);
    }
    n_ = -1;
}

int fd::release() noexcept {
    track(n_, false);
    return std::exchange(n_, -1);
}

void mapped_pages::reset() noexcept {
    if (p_) ::munmap(p_, bytes_);
    p_ = nullptr;
    bytes_ = 0;
}

unsigned fork_generation() noexcept {
    watch_forks();
    return generation.load(std::memory_order_relaxed);
}

}  // namespace ef
