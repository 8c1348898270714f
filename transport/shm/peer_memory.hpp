// peer_memory: how one rank reads another's memory: segments of ef_mem_alloc that it has mapped,
// and private memory through process_vm_readv.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ef::shm {

/// Map `bytes` of `file`, for reading or also for writing. Errors if the file is shorter.
result<mapped_pages> map_file(int file, size_t bytes, bool writable);

class peer_memory {
public:
    /// `single_copy`: "auto", "on", "off".
    peer_memory(int pid, std::string_view single_copy) noexcept;

    /// The peer's segment `id` can be mapped from `file` (mapped when first used).
    void add(uint64_t id, uint64_t bytes, fd& file);
    void remove(uint64_t id) noexcept;

    /// Where [where, where + bytes) of segment `id` is for us; null if we do not have it.
    const std::byte* at(uint64_t id, uint64_t where, size_t bytes) noexcept;

    /// Copy from the peer's address `where`. 0 or an errno.
    int read(std::byte* dst, uint64_t where, size_t bytes) noexcept;

    /// Is process_vm_readv to be used? Tries the peer's cookie, so that a reused pid or another pid
    /// namespace is found out, and with "auto" measures whether it beats the two copies that it
    /// saves.
    bool probe(uint32_t pid, uint64_t cookie_at);
    uint64_t cookie_address() const noexcept;

private:
    struct entry {
        uint64_t id;
        mapped_pages map;
    };
    std::vector<entry> entries_;
    size_t last_ = 0;
    int pid_;
    bool allowed_;
    bool forced_;
};

}  // namespace ef::shm
