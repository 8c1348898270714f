#include "transport/memory.hpp"

#include <eflops/transport.h>
#include <gtest/gtest.h>

#include <cstring>

namespace ef {
namespace {

TEST(memory, is_zeroed_page_aligned_and_found_by_any_pointer_into_it) {
    void* p = nullptr;
    ASSERT_EQ(ef_mem_alloc(10'000, &p), EF_OK) << ef_last_error();
    const auto* b = static_cast<std::byte*>(p);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 4096, 0u);
    for (size_t i = 0; i < 10'000; ++i) ASSERT_EQ(b[i], std::byte(0));
    const memory::segment s = memory::span_of(b + 9'999);
    EXPECT_NE(s.id, 0u);
    EXPECT_EQ(s.begin, b);
    EXPECT_TRUE(s.contains(b, 10'000));
    EXPECT_FALSE(s.contains(b, 16'385));
    EXPECT_EQ(ef_mem_free(p), EF_OK);
}

TEST(memory, answers_for_ordinary_pointers_with_the_gap_around_them) {
    void *p = nullptr, *q = nullptr;
    ASSERT_EQ(ef_mem_alloc(4096, &p), EF_OK);
    ASSERT_EQ(ef_mem_alloc(1 << 20, &q), EF_OK);
    int local = 0;
    const auto* l = reinterpret_cast<std::byte*>(&local);
    const memory::segment gap = memory::span_of(l);
    EXPECT_EQ(gap.id, 0u);
    EXPECT_TRUE(gap.contains(l, sizeof(local)));
    EXPECT_FALSE(gap.contains(static_cast<std::byte*>(p), 1));
    EXPECT_FALSE(gap.contains(static_cast<std::byte*>(q), 1));
    EXPECT_EQ(ef_mem_free(p), EF_OK);
    EXPECT_EQ(ef_mem_free(q), EF_OK);
}

TEST(memory, changes_the_generation_whenever_an_answer_may_have_changed) {
    const uint64_t g0 = memory::generation();
    void* p = nullptr;
    ASSERT_EQ(ef_mem_alloc(1, &p), EF_OK);
    const uint64_t g1 = memory::generation();
    const uint64_t id = memory::span_of(static_cast<std::byte*>(p)).id;
    EXPECT_TRUE(memory::alive(id));
    ASSERT_EQ(ef_mem_free(p), EF_OK);
    EXPECT_NE(g0, g1);
    EXPECT_NE(g1, memory::generation());
    EXPECT_FALSE(memory::alive(id));
}

TEST(memory, refuses_what_it_did_not_hand_out) {
    int x = 0;
    EXPECT_EQ(ef_mem_free(&x), EF_INVALID);
    EXPECT_EQ(ef_mem_free(nullptr), EF_OK);
    void* p = &x;
    EXPECT_EQ(ef_mem_alloc(0, &p), EF_INVALID);
    EXPECT_EQ(ef_mem_alloc(~size_t(0), &p), EF_NO_MEMORY);
    EXPECT_EQ(p, &x) << "an output was touched by a failing call";
    EXPECT_EQ(ef_mem_alloc(1, nullptr), EF_INVALID);
    EXPECT_EQ(ef_mem_deregister(&x), EF_INVALID);
    EXPECT_EQ(ef_mem_register(&x, sizeof(x)), EF_OK);
    EXPECT_EQ(ef_mem_deregister(&x), EF_OK);
    EXPECT_EQ(ef_mem_register(nullptr, 1), EF_INVALID);
}

}  // namespace
}  // namespace ef
