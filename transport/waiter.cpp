#include "transport/waiter.hpp"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace ef {
namespace {

constexpr size_t home_bytes = 4096;
// A thread in a futex does not see its control sockets: it gets up this often to look at them.
// Short against the two seconds in which a death must be known, long against the cost of a look.
constexpr int futex_slice_ms = 20;

enum : uint32_t { awake = 0, in_futex = 1, in_epoll = 2 };

}  // namespace

result<waiter> waiter::create() {
    waiter w;
    w.home_fd_ = fd(memfd_create("eflops-home", MFD_CLOEXEC));
    if (!w.home_fd_) return system_error("waiter: memfd_create", errno);
    if (ftruncate(w.home_fd_.get(), home_bytes) != 0)
        return system_error("waiter: ftruncate of the home page", errno);
    void* p = mmap(nullptr, home_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w.home_fd_.get(), 0);
    if (p == MAP_FAILED) return system_error("waiter: mmap of the home page", errno);
    w.home_ = mapped_pages(p, home_bytes);
    new (p) doorbell;
    w.epoll_ = fd(epoll_create1(EPOLL_CLOEXEC));
    if (!w.epoll_) return system_error("waiter: epoll_create1", errno);
    return w;
}

status waiter::watch(int socket, bool out, bool data_path) {
    // Data sockets are edge triggered: unread bytes for which the schedule is not ready yet must
    // not keep the thread awake, and every channel is looked at between prepare() and sleep().
    // Control sockets are always read empty.
    epoll_event e{};
    e.events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0u) | (data_path ? unsigned(EPOLLET) : 0u);
    e.data.fd = socket;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &e) == 0) {
        if (data_path) ++std::atomic_ref(data_sockets_);
        return {};
    }
    if (errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &e) == 0) return {};
    return system_error("waiter: epoll_ctl", errno);
}

void waiter::forget(int socket, bool data_path) noexcept {
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr) == 0 && data_path)
        --std::atomic_ref(data_sockets_);
}

void waiter::prepare() noexcept {
    seen_ = bell().bell.load(std::memory_order_relaxed);
    const uint32_t how = std::atomic_ref(data_sockets_).load() ? in_epoll : in_futex;
    std::atomic_ref(how_).store(how, std::memory_order_relaxed);
    bell().asleep.store(how, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // W1, pairs with the fence in ring_bell()
}

void waiter::cancel() noexcept {
    std::atomic_ref(how_).store(awake, std::memory_order_relaxed);
    bell().asleep.store(awake, std::memory_order_relaxed);
}

void waiter::sleep(int timeout_ms) noexcept {
    if (how_ == in_epoll) {
        epoll_event events[16];
        (void)!epoll_wait(epoll_.get(), events, 16, timeout_ms);
    } else {
        const int ms = std::min(timeout_ms, futex_slice_ms);
        const timespec t{ms / 1000, long(ms % 1000) * 1'000'000};
        syscall(SYS_futex, &bell().bell, FUTEX_WAIT, seen_, &t, nullptr, 0);
    }
    cancel();
}

bool ring_bell(doorbell& d) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // R1, pairs with the fence in prepare()
    if (d.asleep.load(std::memory_order_relaxed) == awake) return false;
    return ring_sleeper(d);
}

bool ring_sleeper(doorbell& d) noexcept {
    const uint32_t how = d.asleep.exchange(awake, std::memory_order_acq_rel);
    if (how == awake) return false;  // somebody else woke it
    d.bell.fetch_add(1, std::memory_order_release);
    if (how == in_epoll) return true;
    syscall(SYS_futex, &d.bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    return false;
}

}  // namespace ef
