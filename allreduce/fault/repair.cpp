#include "allreduce/fault/repair.hpp"

#include "transport/base/bytes.hpp"

#include <algorithm>
#include <cstring>

namespace ef {
namespace {

// offset size  field
//    0     4   what      word_kind
//    4     4   round     of freezing
//    8     8   number    FROZEN, LEFT: last started; RESUME: first that is planned anew
//   16     4   links     how many link ids of 4 bytes follow
enum word_kind : uint32_t {
    word_suspect = 1,
    word_freeze = 2,
    word_frozen = 3,
    word_resume = 4,
    word_left = 5
};

struct word_header {
    le<uint32_t> what, round;
    le<uint64_t> number;
    le<uint32_t> links;
};
static_assert(sizeof(word_header) == 20 && offsetof(word_header, links) == 16);

constexpr size_t most_links = 4096;

template <class Links>
repair::words write(word_kind what, uint32_t round, uint64_t number, const Links& links) {
    word_header h;
    h.what = what;
    h.round = round;
    h.number = number;
    h.links = uint32_t(links.size());
    repair::words w(sizeof(h));
    memcpy(w.data(), &h, sizeof(h));
    for (fabric::link_id l : links) {
        const le<uint32_t> v = l;
        const auto* p = reinterpret_cast<const std::byte*>(&v);
        w.insert(w.end(), p, p + sizeof(v));
    }
    return w;
}

bool read(std::span<const std::byte> in, word_header& h, std::vector<fabric::link_id>& links) {
    if (in.size() < sizeof(h)) return false;
    memcpy(&h, in.data(), sizeof(h));
    in = in.subspan(sizeof(h));
    if (h.links > most_links || in.size() != h.links * sizeof(uint32_t)) return false;
    for (uint32_t i = 0; i < h.links; ++i) {
        le<uint32_t> v;
        memcpy(&v, in.data() + i * sizeof(v), sizeof(v));
        links.push_back(v);
    }
    return true;
}

const std::set<fabric::link_id> no_links;

}  // namespace

void repair::suspect(std::span<const fabric::link_id> links) {
    std::vector<fabric::link_id> fresh;
    for (fabric::link_id l : links)
        if (fresh.size() < most_links && said_.insert(l).second) fresh.push_back(l);
    if (!fresh.empty()) out_.push_back(write(word_suspect, 0, 0, fresh));
}

bool repair::hear(rank_t from, std::span<const std::byte> word) {
    word_header h;
    std::vector<fabric::link_id> links;
    if (!read(word, h, links)) return false;
    switch (h.what) {
    case word_suspect:
        if (!links.empty()) {
            last_suspect_ = links.back();
            last_suspicious_ = from;
        }
        if (rank_ != 0) return true;
        waiting_.insert(links.begin(), links.end());
        freeze();
        return true;
    case word_freeze:
        if (from != 0) return false;
        frozen_ = true;
        round_ = h.round;
        out_.push_back(write(word_frozen, round_, last_started_, no_links));
        return true;
    case word_frozen:
        if (rank_ != 0 || h.round != round_) return true;
        answered_.insert(from);
        greatest_ = std::max<uint64_t>(greatest_, h.number);
        resume();
        return true;
    case word_left:
        if (rank_ != 0) return true;
        left_.insert(from);
        greatest_left_ = std::max<uint64_t>(greatest_left_, h.number);
        resume();
        return true;
    case word_resume:
        if (from != 0) return false;
        said_.insert(links.begin(), links.end());
        changes_.push_back({h.number, std::move(links)});
        frozen_ = false;
        if (rank_ == 0) {
            freezing_ = false;
            freeze();  // for what was suspected in the meantime
        }
        return true;
    }
    return false;
}

void repair::freeze() {
    for (fabric::link_id l : left_out_) waiting_.erase(l);
    if (freezing_ || waiting_.empty()) return;
    freezing_ = true;
    greatest_ = 0;
    answered_.clear();
    out_.push_back(write(word_freeze, ++round_, 0, no_links));
}

// Once all have answered or left. What comes of a round after its end is not counted again.
void repair::resume() {
    std::set<rank_t> all = left_;
    all.insert(answered_.begin(), answered_.end());
    if (!freezing_ || waiting_.empty() || all.size() < size_t(nranks_)) return;
    answered_.clear();
    greatest_ = std::max(greatest_, greatest_left_);
    left_out_.insert(waiting_.begin(), waiting_.end());
    out_.push_back(write(word_resume, round_, greatest_ + 1, waiting_));
    waiting_.clear();
}

void repair::leave() { out_.push_back(write(word_left, 0, last_started_, no_links)); }

std::vector<fabric::link_id> repair::start(uint64_t number) {
    last_started_ = number;
    std::vector<fabric::link_id> links;
    while (!changes_.empty() && changes_.front().from <= number) {
        links.insert(links.end(), changes_.front().links.begin(), changes_.front().links.end());
        changes_.pop_front();
    }
    return links;
}

bool repair::next_word(words& w) {
    if (out_.empty()) return false;
    w = std::move(out_.front());
    out_.pop_front();
    return true;
}

}  // namespace ef
