#include "perftests/p2p/ends.hpp"

#include <cmath>
#include <utility>

namespace ef::perf::p2p {
namespace {

/// The server's part of one session, from hello to bye.
class server {
public:
    server(const test& what, const p2p_options& mine, ef_pair_t pair)
        : what_(what), o_(mine), s_(pair, what, o_) {}

    void run() {
        try {
            greet();
            while (serve(next_words())) {
            }
        } catch (const failure& e) {
            if (!e.secondary()) s_.confess(e);
            throw;
        } catch (const json::exception& e) {
            const failure f(exit_failed,
                            fmt::format("{}: a malformed word: {}", s_.peer(), e.what()));
            s_.confess(f);
            throw f;
        }
    }

private:
    void greet();
    json next_words();
    bool serve(const json& words);
    void serve_row(uint64_t bytes, const json& words);
    void serve_proof(uint64_t bytes, const json& words);

    const test& what_;
    p2p_options o_;  // the client's, once it has said them
    session s_;
};

void server::greet() {
    const json hello = s_.hear("hello");
    const auto program = hello.at("program").get<std::string>();
    if (program != what_.program)
        throw failure(exit_usage,
                      fmt::format("the client runs {}, the server {}", program, what_.program));
    const auto theirs = hello.at("options").get<std::map<std::string, std::string>>();
    if (const std::string why = conflicts(theirs, o_); !why.empty())
        throw failure(exit_usage, why + ": give it to the client alone");
    if (const std::string why = adopt(theirs, o_); !why.empty())
        throw failure(exit_failed, fmt::format("the client's options are malformed: {}", why));
    s_.say({{"word", "welcome"}, {"version", ef_version()}});
    s_.open_lanes();
}

// Between rows the client may be comparing gigabytes: its own words tell that it lives.
json server::next_words() {
    patience until(s_, "waiting for the client's next word");
    for (unsigned turn = 0;; ++turn) {
        const bool moved = s_.poll(nullptr);
        std::optional<json> words;
        if (turn % 64 == 0) words = s_.listen();
        if (words && (*words)["word"] != "alive") return std::move(*words);
        until.spend(moved || words);
    }
}

bool server::serve(const json& words) {
    const auto word = words.at("word").get<std::string>();
    if (word == "bye") {
        s_.say({{"word", "bye"}});
        return false;
    }
    if (word != "row" && word != "verify")
        throw failure(exit_failed, fmt::format("{}: it said \"{}\"", s_.peer(), word));
    const auto bytes = words.at("size").get<uint64_t>();
    bool agreed = false;
    for (const uint64_t n : o_.traffic.sizes) agreed |= n == bytes;
    if (!agreed || words.at("posted").size() != s_.lanes().size())
        throw failure(exit_failed, fmt::format("{}: a row that was not agreed", s_.peer()));
    if (word == "row") serve_row(bytes, words);
    else serve_proof(bytes, words);
    return true;
}

void server::serve_row(uint64_t bytes, const json& words) {
    s_.say({{"word", "ready"}, {"posted", begin_row(s_, bytes)}});
    json stop;
    const sample mine =
        serve_traffic(s_, bytes, words.at("posted").get<std::vector<uint64_t>>(), stop);
    await_received(s_, stop.at("posted"));
    s_.say({{"word", "done"},
            {"posted", posted_so_far(s_)},
            {"gbps", mine.gbps},
            {"messages_per_s", mine.messages_per_s},
            {"wrong", 0}});
}

void server::serve_proof(uint64_t bytes, const json& words) {
    proof p(s_, bytes, words.at("salt").get<uint64_t>());
    p.fill(false);
    s_.say({{"word", "ready"}, {"posted", begin_row(s_, bytes)}});
    if (o_.traffic.bidirectional || what_.ping_pong) p.move();
    const json stop = s_.hear("stop");
    await_received(s_, stop.at("posted"));
    s_.say({{"word", "done"}, {"posted", posted_so_far(s_)}, {"wrong", p.count_wrong(false)}});
}

/// Owns a listener.
struct listening {
    ef_listener_t l = nullptr;
    listening() = default;
    listening(const listening&) = delete;
    listening& operator=(const listening&) = delete;
    ~listening() { ef_listener_destroy(l); }
};

}  // namespace

int run_server(const test& what, const p2p_options& o, int listen_fd, const char* key) {
    ef_pair_options opt{};
    opt.size = sizeof opt;
    opt.key = key;
    opt.listen_fd = listen_fd;
    listening at;
    must(ef_listener_create(fmt::format(":{}", o.port).c_str(), &opt, &at.l), "listening");
    if (listen_fd <= 0)
        fmt::print(stderr, "{}: waiting for a client at port {}; start there: {} THIS_HOST -p {}\n",
                   what.program, o.port, what.program, o.port);
    const auto timeout_ms = uint32_t(std::ceil(o.timeout_s * 1000));
    for (;;) {
        ef_pair_t pair = nullptr;
        const ef_status_t s = ef_listener_accept(at.l, timeout_ms, &pair);
        if (s == EF_TIMEOUT && o.serve) continue;
        // Whoever came and was no client is not a reason to stop serving.
        if (s == EF_OK || !o.serve) must(s, "waiting for a client");
        if (s != EF_OK) {
            fmt::print(stderr, "{}: {}\n", what.program, ef_last_error());
            continue;
        }
        try {
            server(what, o, pair).run();
            if (!o.serve) return exit_good;
        } catch (const failure& e) {
            if (!o.serve) throw;
            fmt::print(stderr, "{}: {}\n", what.program, e.what());
        }
    }
}

}  // namespace ef::perf::p2p
