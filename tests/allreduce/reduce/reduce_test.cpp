// Every kernel of every instruction set that this machine has, against reference.hpp, bit for bit.
// Operands end or begin at pages that must not be touched.
#include "allreduce/reduce/reduce.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "allreduce/reduce/kernels.hpp"
#include "tests/allreduce/reduce/reference.hpp"

namespace {

using values = std::vector<uint64_t>;
constexpr ef_op_t ops[] = {EF_SUM, EF_PROD, EF_MIN, EF_MAX};
constexpr size_t max_n = 130;

struct target {
    std::string name;
    ef::kernels k;
};

const std::vector<target>& targets() {
    static const std::vector<target> all = [] {
        std::vector<target> v;
        const int64_t here = hwy::SupportedTargets() & ef::compiled_targets();
        for (int64_t left = here; left != 0; left &= left - 1) {
            hwy::SetSupportedTargetsForTest(left & -left);
            hwy::GetChosenTarget().Update(hwy::SupportedTargets());
            const ef::kernels k = ef::load_kernels();
            EXPECT_EQ(k.target, left & -left);
            v.push_back({hwy::TargetName(k.target), k});
        }
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        return v;
    }();
    return all;
}

uint64_t load(const uint8_t* p, ef_type_t t) {
    uint64_t v = 0;
    memcpy(&v, p, reference::size_of(t));  // little-endian, as are all machines we support
    return v;
}

void store(uint8_t* p, ef_type_t t, const values& v) {
    for (size_t i = 0; i < v.size(); ++i)
        memcpy(p + i * reference::size_of(t), &v[i], reference::size_of(t));
}

// One page between two that fault.
class page {
public:
    page() {
        void* p = mmap(nullptr, 3 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(p, MAP_FAILED);
        base_ = static_cast<uint8_t*>(p);
        EXPECT_EQ(mprotect(begin(), bytes, PROT_READ | PROT_WRITE), 0);
    }
    ~page() { munmap(base_, 3 * bytes); }
    page(const page&) = delete;
    page& operator=(const page&) = delete;
    uint8_t* begin() { return base_ + bytes; }
    uint8_t* end() { return base_ + 2 * bytes; }

private:
    static constexpr size_t bytes = 65536;  // a multiple of every machine's page size
    uint8_t* base_;
};

values random_values(std::mt19937_64& rng, ef_type_t t, size_t n) {
    values v(n);
    for (uint64_t& x : v) x = rng() & reference::mask(t);
    return v;
}

values special_values(ef_type_t t) {
    switch (t) {
    case EF_FLOAT32:
        return {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                0x3f800000, 0xbf800000, 0x3f800001, 0x33800000, 0x7f7fffff, 0xff7fffff,
                0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0xffffffff};
    case EF_FLOAT64:
        return {0,
                1ull << 63,
                1,
                0x8000000000000001,
                0x000fffffffffffff,
                0x0010000000000000,
                0x3ff0000000000000,
                0xbff0000000000000,
                0x3ff0000000000001,
                0x3ca0000000000000,
                0x7fefffffffffffff,
                0xffefffffffffffff,
                0x7ff0000000000000,
                0xfff0000000000000,
                0x7ff8000000000000,
                0xfff8000000000001,
                0x7ff0000000000001,
                ~0ull};
    case EF_FLOAT16:
        return {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x83ff, 0x3c00, 0xbc00, 0x3c01,
                0x1000, 0x1001, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0xffff};
    case EF_BFLOAT16:
        return {0,      0x8000, 1,      0x8001, 0x007f, 0x0080, 0x807f, 0x3f80, 0xbf80, 0x3f81,
                0x3b80, 0x3b81, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0xffff};
    default: {
        const uint64_t m = reference::mask(t), top = m / 2 + 1;
        return {0, 1, 2, 3, m, m - 1, top, top - 1, top + 1, m / 3, m / 5, 7, m - 7, top / 2};
    }
    }
}

std::string at(const target& t, int type, int op) {
    return t.name + " type " + std::to_string(type) + " op " + std::to_string(op);
}

class Reduce : public testing::TestWithParam<int> {
protected:
    ef_type_t type() const { return static_cast<ef_type_t>(GetParam()); }
    size_t size() const { return reference::size_of(type()); }

    // Any number of pairs, through all operators and instruction sets.
    void compare(const values& a, const values& b) {
        const size_t n = a.size();
        std::vector<uint8_t> x(n * size()), y(n * size()), z(n * size());
        store(x.data(), type(), a);
        store(y.data(), type(), b);
        for (ef_op_t op : ops) {
            values want(n);
            for (size_t i = 0; i < n; ++i) want[i] = reference::reduce(a[i], b[i], type(), op);
            for (const target& t : targets()) {
                t.k.reduce[type()][op](z.data(), x.data(), y.data(), n);
                for (size_t i = 0; i < n; ++i)
                    ASSERT_EQ(load(&z[i * size()], type()), want[i])
                        << at(t, type(), op) << std::hex << ": " << a[i] << " op " << b[i];
            }
        }
    }
};

TEST(ReduceTargets, IncludeTheOneInUse) {
    bool found = false;
    for (const target& t : targets()) std::printf("kernels for %s\n", t.name.c_str());
    for (const target& t : targets()) found |= t.name == ef::reduce_target();
    EXPECT_TRUE(found) << ef::reduce_target();
    EXPECT_EQ(ef::find_reduce(EF_FLOAT32, EF_SUM), targets().front().k.reduce[0][EF_SUM]);
}

TEST(FindReduce, KnowsEveryPairAndNoOther) {
    for (int type = EF_FLOAT32; type <= EF_UINT64; ++type) {
        const auto t = static_cast<ef_type_t>(type);
        for (ef_op_t op : ops) EXPECT_NE(ef::find_reduce(t, op), nullptr) << type << ' ' << op;
        EXPECT_EQ(ef::find_reduce(t, EF_AVG), ef::find_reduce(t, EF_SUM));
        EXPECT_EQ(ef::find_reduce(t, static_cast<ef_op_t>(5)), nullptr);
        EXPECT_NE(ef::find_average(t), nullptr);
    }
    EXPECT_EQ(ef::find_reduce(static_cast<ef_type_t>(10), EF_SUM), nullptr);
    EXPECT_EQ(ef::find_reduce(static_cast<ef_type_t>(-1), EF_SUM), nullptr);
    EXPECT_EQ(ef::find_reduce(EF_FLOAT32, static_cast<ef_op_t>(-1)), nullptr);
    EXPECT_EQ(ef::find_average(static_cast<ef_type_t>(10)), nullptr);
}

TEST_P(Reduce, AgreesWithTheReferenceOnAllPairsOfSpecialValues) {
    const values s = special_values(type());
    values a, b;
    for (uint64_t x : s)
        for (uint64_t y : s) a.push_back(x), b.push_back(y);
    compare(a, b);
}

TEST_P(Reduce, DoesNotDependOnTheOrderOfOperands) {
    values a, b;
    for (uint64_t x : special_values(type()))
        for (uint64_t y : special_values(type())) a.push_back(x), b.push_back(y);
    const size_t bytes = a.size() * size();
    std::vector<uint8_t> x(bytes), y(bytes), xy(bytes), yx(bytes);
    store(x.data(), type(), a);
    store(y.data(), type(), b);
    for (const target& t : targets())
        for (ef_op_t op : ops) {
            t.k.reduce[type()][op](xy.data(), x.data(), y.data(), a.size());
            t.k.reduce[type()][op](yx.data(), y.data(), x.data(), a.size());
            EXPECT_EQ(xy, yx) << at(t, type(), op);
        }
}

class ReduceHalf : public Reduce {};
TEST_P(ReduceHalf, AgreesWithTheReferenceOnEveryValueAgainstSomeOthers) {
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    values all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    compare(all, random_values(rng, type(), all.size()));
    compare(all, all);
    const uint64_t one = type() == EF_FLOAT16 ? 0x3c01 : 0x3f81, tiny = 0x0013;
    compare(all, values(all.size(), one));
    compare(all, values(all.size(), tiny));
}

TEST_P(Reduce, TouchesExactlyNElementsAtEveryLengthAndOffset) {
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    page pa, pb, pd;
    for (size_t n = 0; n <= max_n; ++n) {
        const values a = random_values(rng, type(), n), b = random_values(rng, type(), n);
        const size_t bytes = n * size(), off = rng() % 4 * size();
        for (const bool at_end : {true, false}) {
            uint8_t* const x = at_end ? pa.end() - bytes : pa.begin();
            uint8_t* const y = at_end ? pb.end() - bytes - off : pb.begin() + off;
            uint8_t* const d = at_end ? pd.end() - bytes - size() : pd.begin() + size();
            store(x, type(), a);
            store(y, type(), b);
            for (const target& t : targets())
                for (ef_op_t op : ops) {
                    memset(d - size(), 0xa5, bytes + 2 * size());
                    t.k.reduce[type()][op](d, x, y, n);
                    for (size_t i = 0; i < n; ++i)
                        ASSERT_EQ(load(d + i * size(), type()),
                                  reference::reduce(a[i], b[i], type(), op))
                            << at(t, type(), op) << " n " << n << " element " << i;
                    for (size_t i = 0; i < size(); ++i) {
                        ASSERT_EQ(d[-1 - static_cast<ptrdiff_t>(i)], 0xa5) << at(t, type(), op);
                        ASSERT_EQ(d[bytes + i], 0xa5) << at(t, type(), op) << " n " << n;
                    }
                }
        }
    }
}

TEST_P(Reduce, WritesOverEitherOperand) {
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    for (size_t n = 0; n <= max_n; ++n) {
        const values a = random_values(rng, type(), n), b = random_values(rng, type(), n);
        std::vector<uint8_t> x(n * size()), y(n * size()), z(n * size());
        store(x.data(), type(), a);
        store(y.data(), type(), b);
        for (const target& t : targets())
            for (ef_op_t op : ops) {
                const ef::reduce_fn f = t.k.reduce[type()][op];
                f(z.data(), x.data(), y.data(), n);
                std::vector<uint8_t> over_a = x, over_b = y;
                f(over_a.data(), over_a.data(), y.data(), n);
                f(over_b.data(), x.data(), over_b.data(), n);
                ASSERT_EQ(over_a, z) << at(t, type(), op) << " n " << n;
                ASSERT_EQ(over_b, z) << at(t, type(), op) << " n " << n;
            }
    }
}

TEST_P(Reduce, AveragesLikeTheReferenceAtEveryLength) {
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    page p;
    for (size_t n = 0; n <= max_n; ++n) {
        values v = random_values(rng, type(), n);
        const values s = special_values(type());
        for (size_t i = 0; i < n; i += 2) v[i] = s[rng() % s.size()];
        for (uint32_t nranks : {1u, 2u, 3u, 7u, 300u, 4000000000u})
            for (const target& t : targets()) {
                uint8_t* const x = p.end() - n * size();
                store(x, type(), v);
                t.k.average[type()](x, n, nranks);
                for (size_t i = 0; i < n; ++i)
                    ASSERT_EQ(load(x + i * size(), type()),
                              reference::average(v[i], type(), nranks))
                        << at(t, type(), EF_AVG) << " nranks " << nranks << " value " << v[i];
            }
    }
}

std::string type_name(const testing::TestParamInfo<int>& type) {
    static const char* const names[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                        "int32",   "int64",   "uint8",   "uint32",   "uint64"};
    return names[type.param];
}

INSTANTIATE_TEST_SUITE_P(Types, Reduce, testing::Range(0, 10), type_name);
INSTANTIATE_TEST_SUITE_P(Types, ReduceHalf, testing::Values(int{EF_FLOAT16}, int{EF_BFLOAT16}),
                         type_name);

}  // namespace
