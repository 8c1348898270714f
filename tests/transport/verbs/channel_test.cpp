// What only a verbs channel can meet: lanes that fail and come late, memory that cannot be registered,
// hellos that do not fit.
#include "transport/verbs/channel.hpp"

#include "tests/conformance/verbs_pair.hpp"
#include "transport/verbs/hello.hpp"
#include "transport/verbs/wire.hpp"

#include <eflops/transport.h>

#include <deque>
#include <random>

namespace ef::verbs {
namespace {

using conformance::bytes;
using conformance::fake_verbs_factory;
using conformance::payload;
using conformance::taken;
using conformance::taker;

class VerbsChannel : public testing::Test {
protected:
    void open(uint32_t rails, uint32_t lanes, uint64_t seed = 0) {
        for (auto& e : end_) e.reset();
        factory_ = std::make_unique<fake_verbs_factory>(rails, lanes, size_t(1) << 20, seed);
        factory_->open();
        for (int side = 0; side < 2; ++side) {
            result<waiter> made = waiter::create();
            ASSERT_TRUE(made.ok());
            waiter_[side] = std::make_unique<waiter>(std::move(*made));
            end_[side] = factory_->end(side, getpid(), *waiter_[side]);
            ASSERT_TRUE(end_[side]);
        }
    }
    channel& a() { return *end_[0]; }
    channel& b() { return *end_[1]; }
    fake_network& net() { return *factory_->network; }

    template <class F>
    bool until(F&& done) {
        const deadline d = deadline::in_ms(10'000);
        for (unsigned turn = 0; !done(); ++turn) {
            if (d.passed()) return false;
            for (auto& e : end_) {
                e->progress();
                if (turn % 16 == 15) e->attend();
            }
        }
        return true;
    }

    std::unique_ptr<fake_verbs_factory> factory_;
    std::unique_ptr<waiter> waiter_[2];
    std::unique_ptr<channel> end_[2];
};

// A stream of messages of all lengths while `event` happens once in its middle: all arrive, once, in
// order.
template <class Event>
void carry(channel& a, channel& b, uint64_t seed, int count, Event&& event) {
    std::mt19937_64 random(seed);
    std::deque<bytes> model;
    taker head(b);
    int sent = 0, got = 0;
    const deadline d = deadline::in_ms(20'000);
    for (unsigned turn = 0; got < count; ++turn) {
        ASSERT_FALSE(d.passed()) << got << " of " << count << " came; " << a.error().text() << " | "
                                 << b.error().text();
        if (sent < count) {
            const bytes p = payload(uint64_t(sent), random() % (random() % 4 ? 3000 : 200'000));
            if (a.send(uint64_t(sent), p.data(), p.size(),
                       p.size() <= a.max_copy() ? ownership::copy : ownership::borrow)) {
                model.push_back(p);
                if (++sent == count / 2) event();
            }
        }
        a.progress();
        b.progress();
        if (turn % 16 == 15) a.attend(), b.attend();
        taken t;
        if (random() % 2 && head.step(t)) {
            ASSERT_EQ(t.tag, uint64_t(got));
            ASSERT_TRUE(t.data == model.front()) << "message " << got << ", seed " << seed;
            model.pop_front();
            ++got;
        }
    }
}

TEST_F(VerbsChannel, GoesOnOverTheOtherRailWhenOneIsLost) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        open(2, 2, seed);
        carry(a(), b(), seed, 400, [&] { net().cut("fake01", true); });
        EXPECT_TRUE(a().error().ok()) << a().error().text();
        EXPECT_TRUE(until([&] { return a().completed() == a().sent(); }));
        if (HasFatalFailure()) return;
    }
}

TEST_F(VerbsChannel, GoesOnWhenARailIsLostUnderTrafficBothWays) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        open(2, 4, seed);
        std::mt19937_64 random(seed);
        int sent[2] = {0, 0}, got[2] = {0, 0};
        taker at[2] = {taker(a()), taker(b())};
        constexpr int count = 300;
        const bytes p = payload(seed, 150'000);
        ASSERT_TRUE(until([&] {
            for (int s = 0; s < 2; ++s) {
                if (sent[s] < count && end_[s]->send(uint64_t(sent[s]), p.data(),
                                                     random() % p.size(), ownership::borrow))
                    if (++sent[s] == count / 2 && s == int(seed % 2)) net().cut("fake10", true);
                taken t;
                if (random() % 2 && at[s].step(t)) {
                    EXPECT_EQ(t.tag, uint64_t(got[s]));
                    EXPECT_EQ(memcmp(t.data.data(), p.data(), t.data.size()), 0);
                    ++got[s];
                }
            }
            return (got[0] == count && got[1] == count) || HasFailure();
        })) << got[0]
            << " and " << got[1] << " came; " << a().error().text() << b().error().text();
    }
}

TEST_F(VerbsChannel, NamesTheRailWhenTheLastOneIsLost) {
    open(1, 1);
    ASSERT_TRUE(until([&] { return a().send(1, nullptr, 0, ownership::copy); }));
    net().cut("fake10", true);
    ASSERT_TRUE(until([&] {
        a().send(1, nullptr, 0, ownership::copy);
        return !a().error().ok();
    }));
    const std::string text(a().error().text());
    EXPECT_NE(text.find("verbs:fake00/1"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    EXPECT_TRUE(until([&] { return !b().error().ok(); })) << "the other end hears it";
}

TEST_F(VerbsChannel, SendsLibraryMemoryFromWhereItIs) {
    open(1, 2);
    void* p = nullptr;
    ASSERT_EQ(ef_mem_alloc(1 << 20, &p), EF_OK);
    auto* data = static_cast<std::byte*>(p);
    const bytes model = payload(3, 1 << 20);
    std::copy(model.begin(), model.end(), data);
    const size_t before = net().regions();
    const size_t n = 200'000;
    ASSERT_TRUE(until([&] { return a().send(1, data + 4096, n, ownership::borrow); }));
    EXPECT_EQ(net().regions(), before + 1) << "the allocation is registered, once";
    taker head(b());
    taken t;
    ASSERT_TRUE(until([&] { return head.step(t); }));
    EXPECT_EQ(memcmp(t.data.data(), model.data() + 4096, n), 0);
    ASSERT_TRUE(until([&] { return a().completed() == a().sent(); }));
    ASSERT_EQ(ef_mem_free(p), EF_OK);
    const bytes other = payload(4, n);
    ASSERT_TRUE(until([&] { return a().send(2, other.data(), n, ownership::borrow); }));
    EXPECT_EQ(net().regions(), before) << "what was freed is registered no longer";
}

TEST_F(VerbsChannel, CopiesWhatCannotBeRegistered) {
    open(1, 1);
    ASSERT_TRUE(until([&] { return a().send(0, nullptr, 0, ownership::copy); }));
    void* p = nullptr;
    ASSERT_EQ(ef_mem_alloc(1 << 20, &p), EF_OK);
    net().refuse_regions(true);
    const bytes model = payload(3, 100'000);
    std::copy(model.begin(), model.end(), static_cast<std::byte*>(p));
    ASSERT_TRUE(until(
        [&] { return a().send(1, static_cast<std::byte*>(p), model.size(), ownership::borrow); }));
    EXPECT_EQ(a().completed(), a().sent()) << "copied, so it is free at once";
    ef_mem_free(p);
    taker head(b());
    taken t;
    ASSERT_TRUE(until([&] { return head.step(t); }));
    ASSERT_TRUE(until([&] { return head.step(t); }));
    EXPECT_EQ(t.data, model);
}

TEST_F(VerbsChannel, SaysWhyItCannotRegisterItsRings) {
    factory_ = std::make_unique<fake_verbs_factory>(1, 1, size_t(1) << 20);
    factory_->open();
    net().refuse_regions(true);
    fake_network other;
    rail r("fake00/1", net().open("fake00"), {});
    result<waiter> w = waiter::create();
    ASSERT_TRUE(w.ok());
    channel_setup s;
    s.peer = {1, "here", 7};
    s.rails = {&r};
    result<std::unique_ptr<channel>> c = make_channel(std::move(s), *w);
    ASSERT_FALSE(c.ok());
    EXPECT_EQ(c.why().code(), EF_NO_RESOURCE);
    const std::string text(c.why().text());
    EXPECT_NE(text.find("fake00/1"), std::string::npos) << text;
    EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
}

// ---------------------------------------------------------------- the wire

TEST(VerbsWire, ImmediatesComeBackAsTheyWere) {
    for (uint32_t parts = 1; parts <= max_lanes; ++parts)
        for (uint32_t part = 0; part < parts; ++part)
            for (uint32_t number : {0u, 1u, 0x7fffu}) {
                const immediate i =
                    unpack(pack({part % 2 == 1, parts, part, part % 3 == 1, number}));
                EXPECT_EQ(i.credit, part % 2 == 1);
                EXPECT_EQ(i.parts, parts);
                EXPECT_EQ(i.part, part);
                EXPECT_EQ(i.wrapped, part % 3 == 1);
                EXPECT_EQ(i.number, number);
            }
}

TEST(VerbsWire, NumbersAreWidenedToTheNearest) {
    for (uint64_t base :
         {uint64_t(0), uint64_t(5), uint64_t(32767), uint64_t(32768), uint64_t(1) << 40})
        for (int64_t off : {-300, -1, 0, 1, 255, 300})
            if (int64_t(base) + off >= 0) {
                EXPECT_EQ(widen(base, uint32_t(base + uint64_t(off)) & number_mask),
                          base + uint64_t(off));
            }
}

TEST(VerbsWire, SharesCoverAMessageWithoutOverlapInWholeBlocks) {
    for (size_t payload_bytes : {size_t(32768), size_t(100'001), size_t(262'112)})
        for (uint32_t parts = 1; parts <= max_lanes; ++parts) {
            size_t at = 0;
            for (uint32_t p = 0; p < parts; ++p) {
                const share s = share_of(payload_bytes, parts, p);
                EXPECT_EQ(s.begin, at);
                EXPECT_LE(s.begin, s.end);
                if (p + 1 < parts) {
                    EXPECT_EQ(s.end % stripe_unit, 0u);
                }
                at = s.end;
            }
            EXPECT_EQ(at, sizeof(header) + payload_bytes);
        }
}

TEST(VerbsHello, RefusesWhatMakesNoSense) {
    hello h{};
    h.version = hello_version;
    h.lanes = 1;
    h.mtu = 1024;
    h.ring_bytes = 1 << 20;
    const auto parse = [&] {
        hello out;
        return parse_hello(std::as_bytes(std::span(&h, 1)), out);
    };
    EXPECT_TRUE(parse().ok());
    h.version = 2;
    EXPECT_NE(parse().text().find("version 2"), std::string_view::npos);
    h.version = hello_version;
    for (uint32_t mtu : {0u, 1000u, 8192u}) {
        h.mtu = mtu;
        EXPECT_FALSE(parse().ok()) << mtu;
    }
    h.mtu = 4096;
    h.lanes = 0;
    EXPECT_FALSE(parse().ok());
    h.lanes = 17;
    EXPECT_FALSE(parse().ok());
    h.lanes = 16;
    h.ring_bytes = 100;
    EXPECT_FALSE(parse().ok());
    hello out;
    EXPECT_NE(parse_hello({}, out).text().find("0 bytes"), std::string_view::npos);
}

}  // namespace
}  // namespace ef::verbs
