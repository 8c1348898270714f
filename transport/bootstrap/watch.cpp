// Who has died, who has left, who has aborted: the first notice wins and is flooded over the
// neighbour graph, so that every rank names the culprit and not a bystander who failed because of
// it.
#include "transport/base/log.hpp"
#include "transport/bootstrap/group_impl.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ef {
namespace {

// A data connection also breaks when its peer leaves in good order. Its goodbye comes straight over
// a control connection, or through other ranks, which forward it when they look.
constexpr uint64_t grace_neighbour_ns = 200'000'000;
constexpr uint64_t grace_others_ns = 1'500'000'000;

}  // namespace

void group_impl::flood(uint16_t type, const bytes& payload, rank_t except) {
    for (auto& [r, n] : neighbours_)
        if (r != except && n.line) n.line->send(type, payload);
}

void group_impl::notice(const notice_message& m, rank_t from) {
    if (!failure_.ok()) return;
    failure_ = status(m.code, m.text);
    log(EF_LOG_INFO, "group: rank {} of {} heard: {}", rank_, nranks_, m.text);
    flood(frame_notice, write_notice(m), from);
}

void group_impl::goodbye(rank_t r, rank_t from) {
    if (gone_[size_t(r)]) return;
    gone_[size_t(r)] = true;
    log(EF_LOG_DEBUG, "group: rank {} has left", r);
    flood(frame_goodbye, writer().put(uint32_t(r)).take(), from);
}

// A word goes on to all other neighbours before the next one of the same rank does, on every line;
// so by whatever way a word comes first, the one before it has come.
void group_impl::pass_on(word_message m, rank_t from) {
    uint32_t& last = words_heard_[m.rank];
    if (m.serial <= last) return;
    last = m.serial;
    flood(frame_word, write_word(m), from);
    words_.push_back({m.rank, std::move(m.data)});
}

void group_impl::tell(std::span<const std::byte> data) {
    pass_on({rank_, words_heard_[rank_] + 1, bytes(data.begin(), data.end())}, -1);
}

bool group_impl::next_word(rank_t& from, std::vector<std::byte>& data) {
    if (words_.empty()) return false;
    from = words_.front().first;
    data = std::move(words_.front().second);
    words_.pop_front();
    return true;
}

void group_impl::died(rank_t r, const std::string& why) {
    notice({r, EF_PEER_LOST, fmt::format("{} died: {}", name(r).text(), why)}, -1);
}

bool group_impl::read_frame(neighbour& n, frame f, rank_t from) {
    notice_message m;
    word_message w;
    rank_t who = -1;
    if (f.type == frame_blocks) {
        n.inbox.push_back(std::move(f));
    } else if (f.type == frame_notice && parse_notice(f.payload, nranks_, m)) {
        notice(m, from);
    } else if (f.type == frame_goodbye && parse_goodbye(f.payload, nranks_, who)) {
        n.left |= who == from;
        goodbye(who, from);
    } else if (f.type == frame_word && parse_word(f.payload, nranks_, w)) {
        pass_on(std::move(w), from);
    } else {
        return false;
    }
    return true;
}

void group_impl::read_neighbours() {
    for (auto& [r, n] : neighbours_) {
        if (!n.line) continue;
        frame f;
        while (n.line->next(f)) {
            if (!read_frame(n, std::move(f), r))
                died(r, "sent a control message that cannot be read");
        }
        if (n.line->broken() && !gone_[size_t(r)] && failure_.ok()) died(r, n.line->why());
    }
}

// Every rank repeats the sentence, so it begins with who says it.
void group_impl::abort(const status& why) noexcept {
    if (!failure_.ok()) return;
    notice({rank_, why.code(), fmt::format("{}: {}", name(rank_).text(), why.text())}, -1);
}

void group_impl::suspect(rank_t peer, const status& why) noexcept {
    if (peer == rank_ || gone(peer) || !failure_.ok()) return;
    for (const suspicion& s : suspicions_)
        if (s.peer == peer) return;
    const uint64_t grace = neighbours_.count(peer) ? grace_neighbour_ns : grace_others_ns;
    suspicions_.push_back({peer, std::string(why.text()), now_ns() + grace});
}

void group_impl::confirm_suspicions(uint64_t now) {
    if (suspicions_.empty()) return;
    for (const suspicion& s : suspicions_)
        if (failure_.ok() && s.confirm_at <= now && !gone(s.peer)) died(s.peer, s.why);
    suspicions_.erase(std::remove_if(suspicions_.begin(), suspicions_.end(),
                                     [&](const suspicion& s) { return s.confirm_at <= now; }),
                      suspicions_.end());
}

void group_impl::progress() noexcept { look(0); }

void group_impl::leave() noexcept { goodbye(rank_, -1); }

bool group_impl::delivered() noexcept {
    return std::all_of(neighbours_.begin(), neighbours_.end(), [](const auto& n) {
        return !n.second.line || n.second.line->delivered();
    });
}

}  // namespace ef
