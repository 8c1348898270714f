#include "perftests/p2p/lane.hpp"

#include "perftests/common/exit_code.hpp"
#include "transport/base/clock.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ef::perf::p2p {
namespace {

constexpr size_t area_bytes = 4 << 20;  // of one direction, unless messages are larger
constexpr size_t least_slots = 2, most_slots = 64;
constexpr uint64_t quiet_below = 8192;  // shorter messages share completions
constexpr uint64_t most_receives = 512;
constexpr size_t batch = 32;  // completions taken at a time

}  // namespace

layout::layout(const std::vector<uint64_t>& sizes) noexcept {
    const uint64_t largest = std::max<uint64_t>(8, *std::max_element(sizes.begin(), sizes.end()));
    stride = (largest + 63) / 64 * 64;
    slots = std::clamp(area_bytes / stride, least_slots, most_slots);
}

lane::lane(ef_pair_t pair, const test& what, const p2p_options& o, const layout& l)
    : what_(what),
      layout_(l),
      depth_(o.traffic.depth),
      asked_signal_every_(o.traffic.signal_every),
      works_(o.traffic.post_list),
      stamp_(std::make_unique<uint64_t[]>(stamps)) {
    const auto timeout_ms = uint32_t(std::min(4e9, std::ceil(o.timeout_s * 1000)));
    must(ef_endpoint_open(pair, o.device.c_str(), timeout_ms, &endpoint_), "connecting");
    ef_endpoint_info info{};
    info.size = sizeof info;
    must(ef_endpoint_describe(endpoint_, &info), "ef_endpoint_describe");
    medium_ = info.medium;
    inline_bytes_ = std::min<uint64_t>(o.traffic.inline_bytes, info.max_inline);
    receive_depth_ = what.two_sided ? std::min<uint64_t>(most_receives, info.max_receives) : 0;
    if (depth_ > info.max_outstanding)
        throw failure(exit_cannot_run, fmt::format("--tx-depth {}: {} takes {} at most", depth_,
                                                   medium_, info.max_outstanding));
    void* p = nullptr;
    if (ef_mem_alloc(2 * layout_.area(), &p) != EF_OK)
        throw failure(exit_cannot_run, fmt::format("memory for messages: {}", ef_last_error()));
    memory_ = static_cast<std::byte*>(p);
    memset(memory_, 0, 2 * layout_.area());
    ef_region_info region{};
    region.size = sizeof region;
    must(ef_endpoint_register(endpoint_, memory_, 2 * layout_.area(), &region), "registering");
    mine_ = {region.address, region.rkey};
    lkey_ = region.lkey;
    for (ef_work& w : works_) {
        w = {};
        w.size = sizeof w;
        w.op = what.op;
    }
}

lane::~lane() {
    ef_endpoint_close(endpoint_);
    ef_mem_free(memory_);
}

void lane::begin(uint64_t bytes) {
    bytes_ = bytes;
    signal_every_ = asked_signal_every_;
    if (signal_every_ == 0)
        signal_every_ = bytes >= quiet_below ? 1 : std::max<uint64_t>(1, depth_ / 8);
    if (what_.ping_pong) signal_every_ = 64;
    for (ef_work& w : works_) {
        w.bytes = bytes;
        w.lkey = lkey_;
        w.rkey = peer_.rkey;
    }
}

void lane::keep_receives() {
    while (receives_ - received_ < receive_depth_) {
        ef_receive some[batch];
        const size_t n = std::min<uint64_t>(batch, receive_depth_ - (receives_ - received_));
        for (size_t i = 0; i < n; ++i)
            some[i] = {sizeof(ef_receive), receives_ + i, incoming(receives_ + i), layout_.stride,
                       lkey_};
        size_t taken = 0;
        must(ef_endpoint_post_receive(endpoint_, some, n, &taken), "posting receives");
        receives_ += taken;
        if (taken < n) return;
    }
}

void lane::post(uint64_t n, bool last, uint64_t operand) {
    while (n > 0) {
        const size_t some = std::min<uint64_t>(n, works_.size());
        for (size_t i = 0; i < some; ++i) {
            ef_work& w = works_[i];
            const uint64_t at = posted_ + i;
            const bool signalled =
                at % signal_every_ == signal_every_ - 1 || (last && n == some && i == some - 1);
            w.id = at;
            w.flags = signalled ? 0 : EF_WORK_UNSIGNALLED;
            const bool outwards = what_.op == EF_WORK_WRITE || what_.op == EF_WORK_SEND;
            if (outwards && bytes_ <= inline_bytes_) w.flags |= EF_WORK_INLINE;
            w.local = outgoing(at);
            w.remote_address = peer_.address + uint64_t(incoming(at) - memory_);
            if (what_.what == kind::atomic_lat) w.remote_address = peer_.address;
            w.operand = operand;
        }
        last_signalled_ = !(works_[some - 1].flags & EF_WORK_UNSIGNALLED);
        post_some(some);
        n -= some;
    }
}

void lane::compare_swap(uint64_t compare, uint64_t swap) {
    ef_work& w = works_[0];
    w.op = EF_WORK_COMPARE_SWAP;
    w.compare = compare;
    w.operand = swap;
    w.id = posted_;
    w.flags = 0;
    w.local = outgoing(posted_);
    w.remote_address = peer_.address;
    last_signalled_ = true;
    post_some(1);
    w.op = what_.op;
}

void lane::post_some(size_t n) {
    const uint64_t now = now_ns();
    for (size_t i = 0; i < n; ++i) stamp_[(posted_ + i) % stamps] = now;
    // room() leaves the queue more places than this; only a broken endpoint takes less.
    size_t taken = 0;
    must(ef_endpoint_post(endpoint_, works_.data(), n, &taken), "posting");
    if (taken < n) throw failure(exit_failed, "posting: the queue is full");
    posted_ += n;
}

bool lane::poll(histogram* times) {
    ef_completion c[batch];
    c[0].size = sizeof(ef_completion);
    size_t n = 0;
    must(ef_endpoint_poll(endpoint_, c, batch, &n), "polling");
    if (n == 0) return false;
    const uint64_t now = times ? now_ns() : 0;
    for (size_t i = 0; i < n; ++i) {
        if (c[i].status != EF_WORK_OK) fail(c[i]);
        if (c[i].op == EF_WORK_RECEIVE || c[i].op == EF_WORK_RECEIVE_IMM) {
            ++received_;
            continue;
        }
        completed_ = c[i].id + 1;
        if (times) times->add(now - stamp_[c[i].id % stamps]);
    }
    return true;
}

// The endpoint has the sentence once its completions are taken.
void lane::fail(const ef_completion& c) {
    ef_completion more[batch];
    more[0].size = sizeof(ef_completion);
    for (size_t n = 1; n > 0;)
        if (ef_status_t s = ef_endpoint_poll(endpoint_, more, batch, &n); s != EF_OK)
            must(s, "transfer");
    throw failure(exit_failed,
                  fmt::format("transfer: message {} failed with status {}", c.id, c.status));
}

}  // namespace ef::perf::p2p
