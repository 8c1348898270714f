// fd and mapped_pages: descriptors and mapped memory that close themselves. Every descriptor of the
// library is owned by an `fd`, which is what lets a forked child let go of all of them (see fork
// handling in fd.cpp): a child that kept a socket open would hide its parent's death from the
// peers.
#pragma once

#include <cstddef>
#include <utility>

namespace ef {

class fd {
public:
    fd() noexcept = default;
    explicit fd(int n) noexcept;
    fd(fd&& o) noexcept : n_(std::exchange(o.n_, -1)) {}
    fd& operator=(fd&& o) noexcept {
        if (this != &o) {
            reset();
            n_ = std::exchange(o.n_, -1);
        }
        return *this;
    }
    ~fd() { reset(); }

    int get() const noexcept { return n_; }
    explicit operator bool() const noexcept { return n_ >= 0; }
    void reset() noexcept;
    /// Give the descriptor away: the caller closes it, and a forked child keeps it.
    int release() noexcept;

private:
    int n_ = -1;
};

class mapped_pages {
public:
    mapped_pages() noexcept = default;
    mapped_pages(void* p, size_t bytes) noexcept : p_(p), bytes_(bytes) {}
    mapped_pages(mapped_pages&& o) noexcept
        : p_(std::exchange(o.p_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
    mapped_pages& operator=(mapped_pages&& o) noexcept {
        if (this != &o) {
            reset();
            p_ = std::exchange(o.p_, nullptr);
            bytes_ = std::exchange(o.bytes_, 0);
        }
        return *this;
    }
    ~mapped_pages() { reset(); }

    std::byte* data() const noexcept { return static_cast<std::byte*>(p_); }
    size_t bytes() const noexcept { return bytes_; }
    explicit operator bool() const noexcept { return p_ != nullptr; }
    void reset() noexcept;

private:
    void* p_ = nullptr;
    size_t bytes_ = 0;
};

/// How many times this process has been forked from the one that loaded the library: an object that
/// remembers the value it was made under can tell that it is being used in a child.
unsigned fork_generation() noexcept;

}  // namespace ef
