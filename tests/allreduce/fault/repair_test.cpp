// Ranks that run their collectives at their own pace, words that take as long as they like: all
// must leave out the same links from the same operation on, and nobody may wait for ever.
#include "allreduce/fault/repair.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

namespace ef {
namespace {

class world {
public:
    world(int n, unsigned seed) : random_(seed), n_(n), mail_(size_t(n)), at_(size_t(n)) {
        for (rank_t r = 0; r < n; ++r) ranks_.emplace_back(r, n);
        seen_.resize(size_t(n));
        out_.resize(size_t(n));
        for (auto& row : mail_) row.resize(size_t(n));
    }

    repair& rank(int r) { return ranks_[size_t(r)]; }

    /// One random thing happens: a word is said, a word comes, a rank starts its next collective.
    void turn(uint64_t last) {
        const size_t r = random_() % size_t(n_);
        repair& me = ranks_[r];
        repair::words w;
        switch (random_() % 3) {
        case 0:
            if (me.next_word(w))
                for (auto& row : mail_) row[r].push_back(w);
            break;
        case 1: {
            const size_t from = random_() % size_t(n_);
            auto& queue = mail_[r][from];
            if (queue.empty()) break;
            EXPECT_TRUE(me.hear(rank_t(from), queue.front()));
            queue.pop_front();
            break;
        }
        default:
            if (me.frozen() || at_[r] == last) break;
            for (fabric::link_id l : me.start(++at_[r])) out_[r].insert(l);
            seen_[r][at_[r]] = out_[r];
        }
    }

    bool finished(uint64_t last) const {
        for (uint64_t a : at_)
            if (a < last) return false;
        return true;
    }
    const std::set<fabric::link_id>& plan(int r, uint64_t number) {
        return seen_[size_t(r)][number];
    }
    uint64_t random(uint64_t below) { return random_() % below; }

private:
    std::mt19937 random_;
    int n_;
    std::vector<repair> ranks_;
    std::vector<std::vector<std::deque<repair::words>>> mail_;  // [to][from]
    std::vector<uint64_t> at_;
    std::vector<std::set<fabric::link_id>> out_;
    std::vector<std::map<uint64_t, std::set<fabric::link_id>>> seen_;
};

TEST(Repair, AllRanksLeaveOutTheSameLinksFromTheSameOperationOn) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        const int n = 1 + int(seed % 7);
        world w(n, seed);
        constexpr uint64_t last = 300;
        // Two ranks find the same link dead, a third one another link, at odd times.
        std::map<int, std::pair<int, fabric::link_id>> finds = {
            {500, {0, 8}}, {510, {n - 1, 8}}, {int(510 + w.random(3000)), {n / 2, 4}}};
        int turns = 0;
        for (; !w.finished(last) && turns < 1'000'000; ++turns) {
            w.turn(last);
            if (auto f = finds.find(turns); f != finds.end()) {
                const fabric::link_id l = f->second.second;
                w.rank(f->second.first).suspect({&l, 1});
            }
        }
        ASSERT_TRUE(w.finished(last)) << "somebody waits for ever, seed " << seed;
        for (uint64_t k = 1; k <= last; ++k)
            for (int r = 1; r < n; ++r)
                ASSERT_EQ(w.plan(r, k), w.plan(0, k))
                    << "operation " << k << " on rank " << r << ", seed " << seed;
    }
}

TEST(Repair, LeavesOutWhatWasFoundAndNothingElse) {
    world w(4, 1);
    const fabric::link_id found[] = {6, 2};
    w.rank(3).suspect(found);
    for (int turns = 0; !w.finished(1000) && turns < 1'000'000; ++turns) w.turn(1000);
    EXPECT_EQ(w.plan(2, 1000), (std::set<fabric::link_id>{2, 6}));
    w.rank(1).suspect(found);  // known by now
    repair::words word;
    EXPECT_FALSE(w.rank(1).next_word(word));
}

TEST(Repair, DoesNotWaitForWhoHasLeftAndReckonsWithWhatItHadStarted) {
    repair zero(0, 2), one(1, 2);
    const fabric::link_id l = 6;
    zero.start(3);
    one.start(9);  // ahead: of broadcasts that it only sent
    one.leave();
    repair::words w;
    zero.suspect({&l, 1});
    while (zero.next_word(w)) ASSERT_TRUE(zero.hear(0, w));
    EXPECT_TRUE(zero.frozen());
    while (one.next_word(w)) ASSERT_TRUE(zero.hear(1, w));
    while (zero.next_word(w)) ASSERT_TRUE(zero.hear(0, w));
    EXPECT_FALSE(zero.frozen());
    EXPECT_TRUE(zero.start(9).empty());
    EXPECT_EQ(zero.start(10), std::vector<fabric::link_id>{l});
}

TEST(Repair, ThawsWhereRankZeroHasLeft) {
    repair zero(0, 2), one(1, 2);
    const fabric::link_id l = 6;
    zero.suspect({&l, 1});
    repair::words w;
    while (zero.next_word(w)) {
        ASSERT_TRUE(zero.hear(0, w));
        ASSERT_TRUE(one.hear(0, w));
    }
    EXPECT_TRUE(one.frozen());
    EXPECT_EQ(one.last_suspect(), l);
    EXPECT_EQ(one.last_suspicious(), 0);
    one.thaw();
    EXPECT_FALSE(one.frozen());
    EXPECT_TRUE(one.start(1).empty());
}

TEST(Repair, RefusesWordsThatCannotBeRead) {
    repair r(1, 4);
    std::vector<std::byte> word(20);
    EXPECT_FALSE(r.hear(0, {}));
    EXPECT_FALSE(r.hear(0, word)) << "no such kind";
    word[0] = std::byte(1);
    EXPECT_TRUE(r.hear(0, word));
    word[16] = std::byte(1);
    EXPECT_FALSE(r.hear(0, word)) << "a link is missing";
    word[16] = std::byte(0);
    word[0] = std::byte(2);
    EXPECT_FALSE(r.hear(2, word)) << "only rank 0 freezes";
    EXPECT_FALSE(r.frozen());
}

}  // namespace
}  // namespace ef
