#include "transport/shm/channel.hpp"

#include "transport/memory.hpp"
#include "transport/shm/notes.hpp"
#include "transport/shm/peer_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ef {
namespace {

using namespace shm;

// Below this a copy through the ring is cheaper than the credit that a borrowed message must wait
// for.
constexpr size_t least_borrowed = 4096;

class shm_channel final : public channel {
public:
    shm_channel(peer_name peer, fd socket, bool dialler, std::string_view single_copy, waiter& w)
        : peer_(std::move(peer)),
          notes_(std::move(socket)),
          waiter_(w),
          remote_(peer_.pid, single_copy),
          dialler_(dialler) {}

    ~shm_channel() override {
        if (watched_) waiter_.forget(notes_.socket(), false);
    }

    status open();

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept override;
    uint64_t sent() const noexcept override { return sent_; }
    uint64_t completed() noexcept override;
    bool peek(message& m) noexcept override;
    size_t fetch(std::byte* dst) noexcept override;
    void release() noexcept override;
    bool progress() noexcept override;
    void attend() noexcept override;
    const status& error() const noexcept override { return error_; }
    size_t max_message() const noexcept override { return shm::max_message; }
    size_t max_copy() const noexcept override { return shm::max_message; }
    const std::string& medium() const noexcept override { return medium_; }

private:
    bool place_in_ring(slot& s, const std::byte* data, size_t bytes) noexcept;
    bool place_by_reference(slot& s, const std::byte* data, size_t bytes) noexcept;
    bool announce(const memory::segment& m) noexcept;
    void retire_freed() noexcept;
    void refresh_credit() noexcept;
    void wake() noexcept;
    void look_at_socket() noexcept;
    void on_hello(received_note& n);
    void fail(std::string_view why) noexcept;
    direction& outgoing() noexcept { return map_->way[dialler_ ? 0 : 1]; }
    direction& incoming() noexcept { return map_->way[dialler_ ? 1 : 0]; }

    // --- read and written for every message
    segment* map_ = nullptr;
    doorbell* peer_bell_ = nullptr;  // null until connected
    uint64_t sent_ = 0;
    uint64_t credit_ = 0;            // our last look at the peer's `released`
    uint64_t last_borrowed_ = 0;     // number of the last message that borrows its data
    uint64_t ring_head_ = 0;         // bytes ever placed in the data ring, padding included
    uint64_t ring_tail_ = 0;         // bytes of it known to be free again
    uint64_t received_ = 0;          // messages released by us
    uint32_t ring_use_[slots] = {};  // bytes of the data ring held by message n, at n % slots
    memory::segment known_;          // last answer of memory::span_of ...
    uint64_t known_at_ = 0;          // ... and the generation it holds for

    // --- seldom
    peer_name peer_;
    notes notes_;
    waiter& waiter_;
    peer_memory remote_;
    std::vector<uint64_t> announced_;  // our segments that the peer can map
    uint64_t retired_at_ = 0;
    mapped_pages segment_;
    mapped_pages peer_home_;
    fd segment_file_;
    status error_;
    std::string medium_ = "shm";
    bool dialler_;
    bool watched_ = false;
};

status shm_channel::open() {
    note hello;
    hello.kind = note_kind::hello;
    hello.pid = uint32_t(getpid());
    hello.value = remote_.cookie_address();
    if (dialler_) {
        segment_file_ = fd(memfd_create("eflops-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (!segment_file_) return system_error("shm: memfd_create", errno);
        if (ftruncate(segment_file_.get(), sizeof(segment)) != 0)
            return system_error("shm: ftruncate of a channel's segment", errno);
        result<mapped_pages> m = map_file(segment_file_.get(), sizeof(segment), true);
        if (!m.ok()) return m.why();
        segment_ = std::move(*m);
        map_ = reinterpret_cast<segment*>(segment_.data());
    }
    if (!notes_.send(hello, waiter_.home_fd(), segment_file_.get()))
        return status(EF_PEER_LOST, "shm: " + peer_.text() + ": hello could not be sent: " +
                                        (notes_.ended() ? notes_.why() : "socket is full"));
    watched_ = true;
    return waiter_.watch(notes_.socket(), false, false);
}

// ---------------------------------------------------------------- sending

bool shm_channel::send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept {
    if (!peer_bell_ || !error_.ok()) return false;
    if (sent_ - credit_ == slots) {
        refresh_credit();
        if (sent_ - credit_ == slots) return false;
    }
    slot& s = outgoing().slot_ring[sent_ % slots];
    ring_use_[sent_ % slots] = 0;
    if (bytes <= inline_bytes) {
        s.how = placed::in_slot;
        if (bytes) memcpy(s.inlined, data, bytes);
    } else if (how == ownership::borrow && bytes >= least_borrowed &&
               place_by_reference(s, data, bytes)) {
        last_borrowed_ = sent_ + 1;
    } else if (!place_in_ring(s, data, bytes)) {
        return false;
    }
    s.tag = tag;
    s.bytes = uint32_t(bytes);
    ++sent_;
    s.seq.store(sent_, std::memory_order_release);  // S1, pairs with R1 in peek()
    wake();
    return true;
}

// Payloads are contiguous and start on a cache line; what is left at the ring's end is skipped.
bool shm_channel::place_in_ring(slot& s, const std::byte* data, size_t bytes) noexcept {
    const uint64_t need = (bytes + 63) / 64 * 64;
    const uint64_t at = ring_head_ % data_bytes;
    const uint64_t skip = at + need > data_bytes ? data_bytes - at : 0;
    if (ring_head_ + skip + need - ring_tail_ > data_bytes) {
        refresh_credit();
        if (ring_head_ + skip + need - ring_tail_ > data_bytes) return false;
    }
    const uint64_t where = (ring_head_ + skip) % data_bytes;
    memcpy(outgoing().data + where, data, bytes);
    s.how = placed::in_ring;
    s.where = where;
    ring_head_ += skip + need;
    ring_use_[sent_ % slots] = uint32_t(skip + need);
    return true;
}

bool shm_channel::place_by_reference(slot& s, const std::byte* data, size_t bytes) noexcept {
    const uint64_t now = memory::generation();
    if (now != known_at_ || !known_.contains(data, bytes)) {
        known_ = memory::span_of(data);
        known_at_ = now;
        if (now != retired_at_) retire_freed();
    }
    if (known_.id && known_.contains(data, bytes)) {
        if (!announce(known_)) return false;
        s.how = placed::in_segment;
        s.segment = known_.id;
        s.where = uint64_t(data - known_.begin);
        return true;
    }
    if (!outgoing().credit.single_copy.load(std::memory_order_relaxed)) return false;
    s.how = placed::in_private;
    s.where = reinterpret_cast<uintptr_t>(data);
    return true;
}

// The descriptor goes ahead of the first reference, so it is there when the peer meets the
// reference.
bool shm_channel::announce(const memory::segment& m) noexcept {
    if (std::find(announced_.begin(), announced_.end(), m.id) != announced_.end()) return true;
    if (announced_.size() == announced_.capacity()) return false;  // remember no more: copy instead
    note n;
    n.kind = note_kind::segment;
    n.value = m.id;
    n.bytes = uint64_t(m.end - m.begin);
    if (!notes_.send(n, m.memfd)) return false;
    announced_.push_back(m.id);
    return true;
}

// The peer holds freed memory until it hears of it.
void shm_channel::retire_freed() noexcept {
    retired_at_ = memory::generation();
    std::erase_if(announced_, [&](uint64_t id) {
        if (memory::alive(id)) return false;
        note n;
        n.kind = note_kind::retire;
        n.value = id;
        return notes_.send(n);
    });
}

void shm_channel::refresh_credit() noexcept {
    const uint64_t now =
        outgoing().credit.released.load(std::memory_order_acquire);  // S2, pairs with R2
    for (; credit_ < now; ++credit_) ring_tail_ += ring_use_[credit_ % slots];
}

uint64_t shm_channel::completed() noexcept {
    if (last_borrowed_ <= credit_) return sent_;
    refresh_credit();
    return last_borrowed_ <= credit_ ? sent_ : credit_;
}

void shm_channel::wake() noexcept {
    if (!ring_bell(*peer_bell_)) return;
    notes_.send(note{});  // a full socket means that the peer has enough to wake up from
}

// ---------------------------------------------------------------- receiving

bool shm_channel::peek(message& m) noexcept {
    if (!peer_bell_) return false;
    slot& s = incoming().slot_ring[received_ % slots];
    if (s.seq.load(std::memory_order_acquire) != received_ + 1) return false;  // R1
    m.tag = s.tag;
    m.bytes = s.bytes;
    m.view = nullptr;
    switch (s.how) {
    case placed::in_slot:
        m.view = s.inlined;
        return true;
    case placed::in_ring:
        m.view = incoming().data + s.where;
        return true;
    case placed::in_private:
        return true;
    case placed::in_segment:
        break;
    }
    m.view = remote_.at(s.segment, s.where, s.bytes);
    if (!m.view) {
        look_at_socket();
        m.view = remote_.at(s.segment, s.where, s.bytes);
    }
    if (!m.view) fail("it refers to memory that it has not passed on");
    return m.view != nullptr;
}

size_t shm_channel::fetch(std::byte* dst) noexcept {
    const slot& s = incoming().slot_ring[received_ % slots];
    const int err = remote_.read(dst, s.where, s.bytes);
    if (err == 0) return s.bytes;
    fail(fmt::format("process_vm_readv: {} (errno {})", strerrordesc_np(err), err));
    return 0;
}

void shm_channel::release() noexcept {
    ++received_;
    incoming().credit.released.store(received_, std::memory_order_release);  // R2, pairs with S2
    wake();
}

// ---------------------------------------------------------------- life

bool shm_channel::progress() noexcept {
    if (peer_bell_ || !error_.ok()) return false;
    look_at_socket();
    return peer_bell_ != nullptr;
}

void shm_channel::attend() noexcept {
    if (!error_.ok()) return;
    look_at_socket();
    if (peer_bell_ && retired_at_ != memory::generation()) retire_freed();
}

void shm_channel::look_at_socket() noexcept {
    received_note n;
    while (notes_.receive(n)) {
        switch (n.head.kind) {
        case note_kind::hello:
            on_hello(n);
            break;
        case note_kind::segment:
            remote_.add(n.head.value, n.head.bytes, n.files[0]);
            break;
        case note_kind::retire:
            remote_.remove(n.head.value);
            break;
        case note_kind::wake:
            break;
        }
    }
    if (notes_.ended() && error_.ok()) fail(notes_.why());
}

void shm_channel::on_hello(received_note& n) {
    if (peer_bell_) return fail("a second hello");
    result<mapped_pages> home = map_file(n.files[0].get(), 4096, true);
    if (!home.ok()) return fail(home.why().text());
    peer_home_ = std::move(*home);
    if (!dialler_) {
        result<mapped_pages> m = map_file(n.files[1].get(), sizeof(segment), true);
        if (!m.ok()) return fail(m.why().text());
        segment_ = std::move(*m);
        map_ = reinterpret_cast<segment*>(segment_.data());
    }
    segment_file_.reset();
    announced_.reserve(1024);
    const bool single_copy = remote_.probe(n.head.pid, n.head.value);
    incoming().credit.single_copy.store(single_copy, std::memory_order_relaxed);
    peer_bell_ = reinterpret_cast<doorbell*>(peer_home_.data());
}

void shm_channel::fail(std::string_view why) noexcept {
    if (!error_.ok()) return;
    error_ = status(EF_PEER_LOST, fmt::format("shm: {}: {}", peer_.text(), why));
}

}  // namespace

result<std::unique_ptr<channel>> make_shm_channel(peer_name peer, fd socket, bool dialler,
                                                  std::string_view single_copy, waiter& w) {
    auto c =
        std::make_unique<shm_channel>(std::move(peer), std::move(socket), dialler, single_copy, w);
    if (status s = c->open(); !s.ok()) return s;
    return std::unique_ptr<channel>(std::move(c));
}

}  // namespace ef
