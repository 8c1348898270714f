// session: one client and its server: the words they exchange, and the lanes between them. Words
// are JSON objects with a "word"; each wait for one keeps the lanes moving and has an end.
//
//   client                          server
//   hello  program, options    -->
//                              <--  welcome  host, pid          or  refused  why
//   (lanes are opened on both)
//   memory                     <->  memory
//   row | verify  size, salt   -->
//                              <--  ready
//   ... traffic ...
//   stop  messages per lane    -->
//                              <--  done  messages per lane, what it measured, wrong bytes
//   bye                        <->  bye
#pragma once

#include "perftests/common/exit_code.hpp"
#include "perftests/p2p/lane.hpp"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace ef::perf::p2p {

using json = nlohmann::json;

class session {
public:
    /// Owns `pair`. `o` outlives it, and must hold what both ends have agreed before open().
    session(ef_pair_t pair, const test& what, const p2p_options& o);
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session();

    void say(json words);
    /// The next words, which must be `word`. Throws what the peer says if it failed.
    json hear(const char* word);
    /// Say bye and wait for the peer's: after it neither needs the other's lanes.
    void part();
    /// Any words, if they have come.
    std::optional<json> listen();
    /// The peer shall know why this end leaves.
    void confess(const failure& e) noexcept;

    void open_lanes();
    std::vector<std::unique_ptr<lane>>& lanes() noexcept { return lanes_; }
    const std::string& peer() const noexcept { return peer_; }
    const p2p_options& options() const noexcept { return o_; }
    const test& what() const noexcept { return what_; }
    std::string medium() const { return lanes_.empty() ? "" : lanes_[0]->medium(); }

    /// Poll all lanes and keep their receives posted. True if anything came.
    bool poll(histogram* times);

private:
    json parse(size_t bytes) const;

    ef_pair_t pair_;
    const test& what_;
    const p2p_options& o_;
    std::string peer_;  // "host7 (pid 4711)"
    std::vector<char> buffer_;
    std::vector<std::unique_ptr<lane>> lanes_;
};

/// A wait that ends: throws when nothing has moved for the session's --timeout.
class patience {
public:
    patience(const session& s, const char* what);
    /// Call in a loop; `moved`: it goes on. Looks at the clock now and then.
    void spend(bool moved);
    /// The same, at the clock at once.
    void look(bool moved);

private:
    const session& s_;
    const char* what_;
    uint64_t limit_ns_, since_ns_;
    unsigned turns_ = 0;
};

}  // namespace ef::perf::p2p
