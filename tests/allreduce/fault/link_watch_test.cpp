// When ways are looked at, and which findings count.
#include "allreduce/fault/link_watch.hpp"

#include <gtest/gtest.h>

namespace ef {
namespace {

constexpr uint64_t ms = 1'000'000;

link_finding found(fabric::link_id l, uint8_t proof, std::string text) {
    link_finding f;
    f.link = l;
    f.dead = true;
    f.proof = proof;
    f.text = std::move(text);
    return f;
}

TEST(LookPace, LooksAtOnceAndThenEveryTwoSeconds) {
    look_pace p;
    EXPECT_TRUE(p.due(1, 0));
    p.looked(5000 * ms, 0, false);
    EXPECT_FALSE(p.due(6990 * ms, 0));
    EXPECT_TRUE(p.due(7000 * ms, 0));
}

TEST(LookPace, LooksSoonAgainWhereAFindingWaitsToBeMadeAgain) {
    look_pace p;
    p.looked(5000 * ms, 0, true);
    EXPECT_FALSE(p.due(5190 * ms, 0));
    EXPECT_TRUE(p.due(5200 * ms, 0));
}

TEST(LookPace, LooksLessOftenTheLongerAStallShowsNoFault) {
    look_pace p;
    p.looked(5000 * ms, 0, false);
    EXPECT_TRUE(p.due(5200 * ms, 301));
    uint64_t now = 5200 * ms, last_gap = 0;
    for (int look = 0; look < 8; ++look) {
        p.looked(now, 1000, false);
        uint64_t gap = 0;
        while (!p.due(now + gap, 1000)) gap += 10 * ms;
        EXPECT_GE(gap, last_gap);
        EXPECT_LE(gap, 2000 * ms);
        last_gap = gap;
        now += gap;
    }
    EXPECT_EQ(last_gap, 2000 * ms);
}

TEST(FindingBook, CountsWhatTwoLooksInARowHaveMadeAndTellsItOnce) {
    finding_book b;
    EXPECT_FALSE(b.note(3, "U0-L1", found(4, 1, "down")));
    EXPECT_TRUE(b.doubtful());
    b.fine(3);
    EXPECT_FALSE(b.doubtful());
    EXPECT_FALSE(b.note(3, "U0-L1", found(4, 1, "down"))) << "a healthy look came between";
    EXPECT_TRUE(b.note(3, "U0-L1", found(4, 1, "down")));
    EXPECT_FALSE(b.note(3, "U0-L1", found(4, 1, "down")));
    EXPECT_FALSE(b.note(5, "U0-L1", found(4, 1, "down")));
    EXPECT_FALSE(b.note(5, "U0-L1", found(4, 1, "down"))) << "told on the way to another peer";
}

TEST(FindingBook, TellsAgainOfALinkThatWasHealthyOnAllWaysInBetween) {
    finding_book b;
    for (rank_t peer : {3, 5})
        for (int look = 0; look < 2; ++look) b.note(peer, "U0-L1", found(4, 1, "down"));
    b.fine(3);
    for (int look = 0; look < 2; ++look)
        EXPECT_FALSE(b.note(3, "U0-L1", found(4, 1, "down"))) << "still dead on the other way";
    b.fine(3);
    b.fine(5);
    EXPECT_EQ(b.text(0), "");
    EXPECT_FALSE(b.note(3, "U0-L1", found(4, 1, "down")));
    EXPECT_TRUE(b.note(3, "U0-L1", found(4, 1, "down")));
}

TEST(FindingBook, DoesNotLetSilenceHideWhatARouterHasSaid) {
    finding_book b;
    EXPECT_FALSE(b.note(3, "U0-L1", found(4, 2, "U0 says so")));
    EXPECT_FALSE(b.note(3, "U0p0-U0", found(0, 0, "silence")));
    EXPECT_EQ(b.text(0), "U0 says so");
    EXPECT_TRUE(b.note(3, "U0-L1", found(4, 2, "U0 says so"))) << "its looks are not undone";
}

TEST(FindingBook, NamesInATimeoutTheLinkBeforeWhatIsOnlySilent) {
    finding_book b;
    b.note(1, "U0p0-U0", found(0, 0, "silence"));
    EXPECT_EQ(b.text(1), "");
    EXPECT_EQ(b.text(0), "silence");
    b.note(2, "the way", found(fabric::none, 1, "the way ends"));
    b.note(3, "U0-L1", found(4, 1, "U0-L1 is down"));
    EXPECT_EQ(b.text(0), "U0-L1 is down");
    b.clear();
    EXPECT_EQ(b.text(0), "");
}

}  // namespace
}  // namespace ef
