// repair: how all ranks of a communicator come to leave the same links of the fabric out of their
// plans from the same operation on.
//
// Operations of a communicator need not be in step: a rank may be several broadcasts ahead of
// another. So a rank that finds a link dead cannot say "from my next operation on". Rank 0 stops the
// world instead:
//
//     any rank     SUSPECT links ->  all          only rank 0 acts on it
//     rank 0       FREEZE n      ->  all          nobody starts a further collective
//     every rank   FROZEN n, number of the last collective that it has started  ->  all
//     rank 0       RESUME n, from = the greatest of these + 1, links  ->  all
//     who leaves   LEFT, number of the last collective that it has started  ->  all
//
// What was started before `from` ends on the old plan, also on ranks that have yet to start it; what
// comes after is planned without the links. A frozen rank goes on with what it has started, so
// nothing waits for anything but the words themselves, and those have the communicator's deadline.
// Who has left is not waited for. Where rank 0 has left, which is after all its operations, there
// are none left that could be planned anew: who is frozen thaws.
//
// A state machine without clock or network: words in, words out. One thread at a time.
#pragma once

#include "affinity/fabric/graph.hpp"
#include "transport/transport.hpp"

#include <deque>
#include <set>
#include <span>
#include <vector>

namespace ef {

class repair {
public:
    using words = std::vector<std::byte>;

    repair(rank_t rank, rank_t nranks) : rank_(rank), nranks_(nranks) {}

    /// This rank has found these links dead (both directions of a cable are one link: the lower id
    /// stands for both).
    void suspect(std::span<const fabric::link_id> links);

    /// A word of `from`, this rank's own included. False: it cannot be read.
    bool hear(rank_t from, std::span<const std::byte> word);

    /// The next word to be said to all. False: none.
    bool next_word(words& w);

    /// This rank starts no further collective: its last word.
    void leave();
    /// Rank 0 has left, and all that it said has been heard.
    void thaw() noexcept { frozen_ = false; }

    /// What was suspected last, and by whom; `none`: nothing yet.
    fabric::link_id last_suspect() const noexcept { return last_suspect_; }
    rank_t last_suspicious() const noexcept { return last_suspicious_; }

    /// No further collective may be started now.
    bool frozen() const noexcept { return frozen_; }

    /// The collective with this number is being started: which further links its plan, and those of
    /// all that follow, leave out. Called for each that is started, in order.
    std::vector<fabric::link_id> start(uint64_t number);

private:
    struct change {
        uint64_t from;
        std::vector<fabric::link_id> links;
    };

    void freeze();  // rank 0, unless the world is frozen already
    void resume();

    rank_t rank_, nranks_;
    bool frozen_ = false;
    uint32_t round_ = 0;  // of freezing
    fabric::link_id last_suspect_ = fabric::none;
    rank_t last_suspicious_ = -1;
    uint64_t last_started_ = 0;
    std::set<fabric::link_id> said_;  // by this rank, or known to be out
    std::deque<words> out_;
    std::deque<change> changes_;

    // --- rank 0
    bool freezing_ = false;
    std::set<fabric::link_id> waiting_;   // suspected, not yet left out
    std::set<fabric::link_id> left_out_;  // said in a RESUME
    std::set<rank_t> answered_, left_;
    uint64_t greatest_ = 0, greatest_left_ = 0;
};

}  // namespace ef
