// What looks at a way are taken for, on fabrics whose routers' addresses are known: in turn each
// link of a way dies or is gone round, and the link that is named must be that one.
#include "allreduce/fault/judge.hpp"

#include "affinity/fabric/load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace ef {
namespace {

// A group as one rank on each host would see it; all that is exchanged is alike.
class on_all_hosts : public group {
public:
    explicit on_all_hosts(const fabric::graph& g) {
        for (fabric::node_id h : g.hosts()) {
            peer_info p;
            p.host = p.host_id = g.at(h).name;
            p.address = "127.0.0.1:1";
            infos_.push_back(p);
        }
    }
    result<std::unique_ptr<group>> split(int, int, waiter&) override {
        return status(EF_INVALID, "not here");
    }
    rank_t rank() const noexcept override { return 0; }
    rank_t nranks() const noexcept override { return rank_t(infos_.size()); }
    const peer_info& info(rank_t r) const noexcept override { return infos_[size_t(r)]; }
    peer_name name(rank_t r) const override { return {r, infos_[size_t(r)].host, 1}; }
    bool local(rank_t r) const noexcept override { return r == 0; }
    result<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override {
        std::vector<std::byte> all;
        for (size_t i = 0; i < infos_.size(); ++i) all.insert(all.end(), mine.begin(), mine.end());
        return all;
    }
    void want(rank_t, uint16_t, uint16_t) override {}
    void dial(rank_t, uint16_t, uint16_t, std::span<const uint16_t>) override {}
    bool next(link&) override { return false; }
    void progress() noexcept override {}
    const status& failure() const noexcept override { return ok_; }
    bool gone(rank_t) const noexcept override { return false; }
    void abort(const status&) noexcept override {}
    void suspect(rank_t, const status&) noexcept override {}
    void tell(std::span<const std::byte>) override {}
    bool next_word(rank_t&, std::vector<std::byte>&) override { return false; }
    void leave() noexcept override {}
    bool delivered() noexcept override { return true; }

private:
    std::vector<peer_info> infos_;
    status ok_;
};

class Judge : public testing::Test {
protected:
    /// A generator's fabric whose links have addresses.
    void know(const char* generator) {
        result<fabric::graph> g = fabric::make_from_text(generator);
        ASSERT_TRUE(g.ok());
        for (fabric::link_id l = 0; l < g->links().size(); ++l)
            g->set_link_address(l, fmt::format("10.0.{}.{}", l / 256, l % 256));
        std::string path = testing::TempDir() + "eflops-judge.XXXXXX";
        const int file = mkstemp(path.data());
        ASSERT_GE(file, 0);
        const std::string text = fabric::write_fabric(*g);
        ASSERT_EQ(write(file, text.data(), text.size()), ssize_t(text.size()));
        close(file);
        config c;
        c.fabric = path;
        on_all_hosts all(*g);
        std::vector<int> host_of(g->hosts().size());
        for (size_t i = 0; i < host_of.size(); ++i) host_of[i] = int(i);
        result<std::unique_ptr<fabric_view>> v = fabric_view::create(all, c, host_of);
        unlink(path.c_str());
        ASSERT_TRUE(v.ok()) << v.why().text();
        view_ = std::move(*v);
    }
    fabric::node_id node(const char* name) const { return view_->net().find(name); }
    path::hop hop(const std::string& link) const {
        return {view_->net().edge(view_->net().find_link(link)).to_address, 0};
    }
    /// The routers behind these links answer.
    path::trace seen(std::initializer_list<const char*> links, bool reached) const {
        path::trace t;
        for (const char* l : links) t.hops.push_back(*l ? hop(l) : path::hop{});
        t.reached = reached;
        return t;
    }
    std::string named(const std::optional<link_finding>& f) const {
        if (!f) return "nothing";
        return f->link == fabric::none ? "no link" : view_->net().text_of(f->link);
    }
    std::optional<link_finding> judge(const char* a, const char* b, const path::trace& now,
                                      const path::trace& before = {}) const {
        return judge_way(*view_, node(a), node(b), now, before);
    }
    std::unique_ptr<fabric_view> view_;
};

TEST_F(Judge, FindsNothingWrongWithAWayThatIsWhole) {
    know("bigraph:S=2,H=2,L=1");
    const path::trace whole = seen({"U0p0-U0", "U0-L1"}, true);
    EXPECT_EQ(named(judge("U0p0", "L1p0", whole)), "nothing");
    EXPECT_EQ(named(judge("U0p0", "L1p0", whole, whole)), "nothing");
    EXPECT_EQ(named(judge("U0p0", "L1p0", seen({"", "U0-L1"}, true), whole)), "nothing");
    EXPECT_EQ(named(judge("U0p0", "L1p0", seen({}, true), whole)), "nothing") << "all are mute";
}

TEST_F(Judge, NamesTheLinkBehindTheLastRouterThatAnswers) {
    know("bigraph:S=2,H=2,L=1");
    const auto f = judge("U0p0", "L1p0", seen({"U0p0-U0"}, false));
    EXPECT_EQ(named(f), "U0-L1");
    EXPECT_TRUE(f->dead);
    EXPECT_EQ(f->proof, 1);
    EXPECT_NE(f->text.find("link U0-L1 is down: on the way to L1p0, U0 ("), std::string::npos);
}

TEST_F(Judge, TakesARoutersWordForMoreThanSilence) {
    know("bigraph:S=2,H=2,L=1");
    // The probe for the first router was not answered, that for the second was, by the first; and
    // both were.
    for (path::trace t : {seen({"", "U0p0-U0"}, false), seen({"U0p0-U0", "U0p0-U0"}, false)}) {
        t.refusal = "network unreachable";
        const auto f = judge("U0p0", "L1p0", t);
        EXPECT_EQ(named(f), "U0-L1");
        EXPECT_EQ(f->proof, 2);
        EXPECT_NE(f->text.find("says \"network unreachable\""), std::string::npos);
    }
}

TEST_F(Judge, IsNotSureOfTheHostsOwnCables) {
    know("bigraph:S=2,H=2,L=1");
    const auto first = judge("U0p0", "L1p0", seen({}, false));
    EXPECT_EQ(named(first), "U0p0-U0");
    EXPECT_EQ(first->proof, 0);
    path::trace t = seen({"U0p0-U0", "U0-L1"}, false);
    const auto last = judge("U0p0", "L1p0", t);
    EXPECT_EQ(named(last), "L1-L1p0");
    EXPECT_EQ(last->proof, 0);
    t.refusal = "host unreachable";
    EXPECT_EQ(judge("U0p0", "L1p0", t)->proof, 2);
}

TEST_F(Judge, NamesTheLinkThatTheNetworkGoesRound) {
    know("bigraph:S=2,H=2,L=1");
    const path::trace round = seen({"U0p0-U0", "U0-L0", "L0-U1", "U1-L1"}, true);
    for (const path::trace& before : {path::trace{}, seen({"U0p0-U0", "U0-L1"}, true)}) {
        const auto f = judge("U0p0", "L1p0", round, before);
        EXPECT_EQ(named(f), "U0-L1");
        EXPECT_FALSE(f->dead);
    }
    const fabric::link_id out[] = {view_->net().find_link("U0-L1")};
    view_->leave_out(out);
    EXPECT_EQ(named(judge("U0p0", "L1p0", round)), "nothing") << "as it has to be without the link";
}

TEST_F(Judge, KnowsWhichOfSeveralWaysItWasFromTheTimeWhenItWasWhole) {
    know("leafspine:leaves=2,spines=2,hosts=2");
    const path::trace before = seen({"leaf0p0-leaf0", "leaf0-spine1", "spine1-leaf1"}, true);
    const path::trace dead = seen({"leaf0p0-leaf0"}, false);
    EXPECT_EQ(named(judge("leaf0p0", "leaf1p0", dead, before)), "leaf0-spine1");
    EXPECT_EQ(named(judge("leaf0p0", "leaf1p0", dead)), "no link") << "either of two";
    EXPECT_EQ(named(judge("leaf0p0", "leaf1p0", seen({"leaf0p0-leaf0", "leaf0-spine1"}, false))),
              "spine1-leaf1")
        << "the only one behind it";
    const auto moved = judge("leaf0p0", "leaf1p0",
                             seen({"leaf0p0-leaf0", "leaf0-spine0", "spine0-leaf1"}, true), before);
    ASSERT_TRUE(moved);
    EXPECT_TRUE(moved->moved);
    EXPECT_EQ(named(moved), "no link");
}

TEST_F(Judge, SaysWhereAWayEndsThatTheFileDoesNotKnow) {
    know("leafspine:leaves=2,spines=2,hosts=2");
    path::trace t = seen({"leaf0p0-leaf0"}, false);
    t.hops.push_back({"192.0.2.7", 0});
    const auto f = judge("leaf0p0", "leaf1p0", t);
    EXPECT_EQ(named(f), "no link");
    EXPECT_EQ(f->text, "the way to leaf1p0 ends behind 192.0.2.7");
}

TEST_F(Judge, SaysNothingOfWhatCouldNotBeProbed) {
    know("bigraph:S=2,H=2,L=1");
    path::trace t;
    t.why = status(EF_NO_RESOURCE, "the port is taken");
    EXPECT_EQ(named(judge("U0p0", "L1p0", t)), "nothing");
}

}  // namespace
}  // namespace ef
