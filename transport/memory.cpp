#include "transport/memory.hpp"

#include "transport/base/fd.hpp"

#include <eflops/transport.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <mutex>

namespace ef::memory {
namespace {

struct allocation {
    uint64_t id;
    fd file;
    mapped_pages map;
};

struct registration {
    size_t bytes;
    int count;
};

std::mutex lock;
// Never destroyed: a program may free memory from its own static destructors.
auto& allocations = *new std::map<const std::byte*, allocation>;
auto& registrations = *new std::map<const void*, registration>;
uint64_t next_id = 1;
std::atomic<uint64_t> current{1};

const std::byte* const lowest = nullptr;
const std::byte* const highest =
    reinterpret_cast<const std::byte*>(std::numeric_limits<uintptr_t>::max());

}  // namespace

uint64_t generation() noexcept { return current.load(std::memory_order_acquire); }

segment span_of(const std::byte* p) noexcept {
    std::lock_guard hold(lock);
    auto next = allocations.upper_bound(p);
    segment gap{0, lowest, next == allocations.end() ? highest : next->first, -1};
    if (next == allocations.begin()) return gap;
    const auto& [begin, a] = *std::prev(next);
    const std::byte* end = begin + a.map.bytes();
    if (p < end) return {a.id, begin, end, a.file.get()};
    gap.begin = end;
    return gap;
}

bool alive(uint64_t id) noexcept {
    std::lock_guard hold(lock);
    return std::any_of(allocations.begin(), allocations.end(),
                       [&](const auto& a) { return a.second.id == id; });
}

static result<void*> allocate(size_t bytes) {
    if (bytes == 0) return status(EF_INVALID, "ef_mem_alloc: 0 bytes");
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    if (bytes > std::numeric_limits<size_t>::max() / 2)
        return status(EF_NO_MEMORY, "ef_mem_alloc: " + std::to_string(bytes) + " bytes");
    const size_t rounded = (bytes + page - 1) / page * page;
    const std::string what = "ef_mem_alloc of " + std::to_string(bytes) + " bytes: ";
    fd file(memfd_create("eflops-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) return system_error(what + "memfd_create", errno);
    if (ftruncate(file.get(), off_t(rounded)) != 0) return system_error(what + "ftruncate", errno);
    // A peer that maps it must never meet SIGBUS.
    if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return system_error(what + "F_ADD_SEALS", errno);
    void* p = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (p == MAP_FAILED) return system_error(what + "mmap", errno);
    mapped_pages map(p, rounded);
    madvise(p, rounded, MADV_HUGEPAGE);  // advice: without it everything works, more slowly

    std::lock_guard hold(lock);
    const std::byte* const begin = map.data();
    allocations.emplace(begin, allocation{next_id++, std::move(file), std::move(map)});
    current.fetch_add(1, std::memory_order_release);
    return p;
}

static status release(void* ptr) {
    if (!ptr) return {};
    std::lock_guard hold(lock);
    const auto it = allocations.find(static_cast<std::byte*>(ptr));
    if (it == allocations.end())
        return status(EF_INVALID, "ef_mem_free: not a pointer of ef_mem_alloc");
    allocations.erase(it);
    current.fetch_add(1, std::memory_order_release);
    return {};
}

static status enrol(void* ptr, size_t bytes) {
    if (!ptr || !bytes) return status(EF_INVALID, "ef_mem_register: no memory given");
    std::lock_guard hold(lock);
    registration& r = registrations[ptr];
    r.bytes = std::max(r.bytes, bytes);
    ++r.count;
    return {};
}

static status withdraw(void* ptr) {
    std::lock_guard hold(lock);
    const auto it = registrations.find(ptr);
    if (it == registrations.end())
        return status(EF_INVALID, "ef_mem_deregister: not a pointer of ef_mem_register");
    if (--it->second.count == 0) registrations.erase(it);
    return {};
}

}  // namespace ef::memory

extern "C" {

ef_status_t ef_mem_alloc(size_t bytes, void** ptr_p) {
    return ef::guard([&]() -> ef::status {
        if (!ptr_p) return ef::status(EF_INVALID, "ef_mem_alloc: ptr_p is NULL");
        ef::result<void*> p = ef::memory::allocate(bytes);
        if (p.ok()) *ptr_p = *p;
        return p.why();
    });
}

ef_status_t ef_mem_free(void* ptr) {
    return ef::guard([&] { return ef::memory::release(ptr); });
}

// shm and tcp need no preparation of ordinary memory; what is kept here is what a device that pins
// will be told, and what makes a wrong deregister an error today.
ef_status_t ef_mem_register(void* ptr, size_t bytes) {
    return ef::guard([&] { return ef::memory::enrol(ptr, bytes); });
}

ef_status_t ef_mem_deregister(void* ptr) {
    return ef::guard([&] { return ef::memory::withdraw(ptr); });
}

}  // extern "C"
