#include "perftests/p2p/session.hpp"

#include "perftests/common/facts.hpp"
#include "transport/base/clock.hpp"

namespace ef::perf::p2p {
namespace {

constexpr size_t first_buffer = 64 << 10;
constexpr size_t longest_words = 16 << 20;
constexpr unsigned turns_between_looks = 1024;

}  // namespace

patience::patience(const session& s, const char* what)
    : s_(s), what_(what), limit_ns_(uint64_t(s.options().timeout_s * 1e9)), since_ns_(now_ns()) {}

void patience::spend(bool moved) {
    if (moved) {
        turns_ = 0;
        since_ns_ = 0;
        return;
    }
    if (++turns_ % turns_between_looks == 0) look(false);
}

void patience::look(bool moved) {
    const uint64_t now = now_ns();
    if (moved || since_ns_ == 0) since_ns_ = now;
    if (now - since_ns_ < limit_ns_) return;
    throw failure(exit_failed, fmt::format("{}: {}: nothing moved for {} s", s_.peer(), what_,
                                           s_.options().timeout_s));
}

session::session(ef_pair_t pair, const test& what, const p2p_options& o)
    : pair_(pair), what_(what), o_(o), buffer_(first_buffer) {
    ef_pair_info info{};
    info.size = sizeof info;
    must(ef_pair_peer(pair_, &info), "ef_pair_peer");
    peer_ = fmt::format("{} (pid {})", info.host, info.pid);
}

session::~session() {
    lanes_.clear();
    ef_pair_destroy(pair_);
}

void session::say(json words) {
    const std::string text = words.dump(-1, ' ', false, json::error_handler_t::replace);
    must(ef_pair_send(pair_, text.data(), text.size()), "telling the peer");
}

void session::confess(const failure& e) noexcept {
    try {
        say({{"word", "failed"}, {"why", e.what()}, {"code", int(e.code())}});
    } catch (const std::exception&) {
        return;  // it is gone already
    }
}

json session::parse(size_t bytes) const {
    json j = json::parse(buffer_.begin(), buffer_.begin() + std::ptrdiff_t(bytes), nullptr, false);
    if (!j.is_object() || !j.contains("word") || !j["word"].is_string())
        throw failure(exit_failed, fmt::format("{}: it does not speak like a perftest", peer_));
    if (j["word"] != "failed" && j["word"] != "refused") return j;
    const int code = j.value("code", int(exit_failed));
    const bool known = code >= exit_failed && code <= exit_wrong_data;
    throw failure(known || code == exit_cannot_run ? exit_code(code) : exit_failed,
                  fmt::format("{}: {}", peer_, j.value("why", "it failed")), true);
}

std::optional<json> session::listen() {
    size_t bytes = 0;
    ef_status_t s = ef_pair_receive(pair_, buffer_.data(), buffer_.size(), 0, &bytes);
    if (s == EF_INVALID && bytes > buffer_.size() && bytes <= longest_words) {
        buffer_.resize(bytes);
        s = ef_pair_receive(pair_, buffer_.data(), buffer_.size(), 0, &bytes);
    }
    if (s == EF_IN_PROGRESS) return std::nullopt;
    must(s, "listening to the peer");
    return parse(bytes);
}

void session::part() {
    say({{"word", "bye"}});
    patience until(*this, "waiting for its bye");
    // The lanes are left alone: they may be closed on the other side already.
    for (;;) {
        if (const auto j = listen(); j && (*j)["word"] == "bye") return;
        until.look(false);
    }
}

json session::hear(const char* word) {
    const std::string waiting = fmt::format("waiting for \"{}\"", word);
    patience until(*this, waiting.c_str());
    for (unsigned turn = 0;; ++turn) {
        const bool moved = poll(nullptr);
        if (turn % 64 == 0)
            if (auto j = listen()) {
                if ((*j)["word"] == word) return *j;
                throw failure(exit_failed, fmt::format("{}: it said \"{}\" instead of \"{}\"",
                                                       peer_, std::string((*j)["word"]), word));
            }
        until.spend(moved);
    }
}

bool session::poll(histogram* times) {
    bool moved = false;
    for (const auto& l : lanes_) {
        if (!l->poll(times)) continue;
        moved = true;
        l->keep_receives();
    }
    return moved;
}

void session::open_lanes() {
    const layout l(o_.traffic.sizes);
    const uint64_t needed = 2ull * l.area() * o_.traffic.qps, available = available_bytes();
    if (available && needed > available)
        throw failure(exit_cannot_run,
                      fmt::format("messages need {:.1f} GiB and {:.1f} GiB are available: smaller "
                                  "sizes or fewer QPs",
                                  double(needed) / (1 << 30), double(available) / (1 << 30)));
    for (uint32_t i = 0; i < o_.traffic.qps; ++i)
        lanes_.push_back(std::make_unique<lane>(pair_, what_, o_, l));
    json mine = json::array();
    for (const auto& x : lanes_)
        mine.push_back({{"address", x->mine().address}, {"rkey", x->mine().rkey}});
    say({{"word", "memory"}, {"lanes", mine}});
    const json theirs = hear("memory");
    try {
        for (size_t i = 0; i < lanes_.size(); ++i)
            lanes_[i]->set_peer({theirs.at("lanes").at(i).at("address").get<uint64_t>(),
                                 theirs.at("lanes").at(i).at("rkey").get<uint32_t>()});
    } catch (const json::exception& e) {
        throw failure(exit_failed, fmt::format("{}: its memory is not told: {}", peer_, e.what()));
    }
}

}  // namespace ef::perf::p2p
