// The patterns against the dullest reduction: element by element in float (long double for 64 bit),
// in several orders, rounding to the type after each step as a real algorithm would.
#include "perftests/common/pattern.hpp"

#include "perftests/common/names.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace ef::perf {
namespace {

using bytes = std::vector<unsigned char>;

double to_double(ef_type_t t, const unsigned char* p) {
    const auto load = [p](auto x) {
        std::memcpy(&x, p, sizeof x);
        return x;
    };
    switch (t) {
    case EF_FLOAT32:
        return double(load(float()));
    case EF_FLOAT64:
        return load(double());
    case EF_BFLOAT16: {
        const uint32_t wide = uint32_t(load(uint16_t())) << 16;
        float f;
        std::memcpy(&f, &wide, sizeof f);
        return double(f);
    }
    case EF_FLOAT16: {
        const uint16_t h = load(uint16_t());
        const int e = (h >> 10) & 31;
        const double f = h & 0x3ff;
        if (e == 31) return NAN;
        const double v = e ? std::ldexp(1024 + f, e - 25) : std::ldexp(f, -24);
        return h & 0x8000 ? -v : v;
    }
    case EF_INT8:
        return load(int8_t());
    case EF_INT32:
        return load(int32_t());
    case EF_INT64:
        return double(load(int64_t()));
    case EF_UINT8:
        return load(uint8_t());
    case EF_UINT32:
        return load(uint32_t());
    case EF_UINT64:
        return double(load(uint64_t()));
    }
    return NAN;
}

/// The largest integer up to which t holds all of them, found by the width of its fraction.
double largest_exact(ef_type_t t) {
    switch (t) {
    case EF_FLOAT16:
        return 2048;
    case EF_BFLOAT16:
        return 256;
    case EF_INT8:
        return 127;
    case EF_UINT8:
        return 255;
    case EF_FLOAT32:
        return 16777216;
    default:
        return 2147483647;
    }
}

/// Integers only, as the patterns promise.
void from_double(ef_type_t t, double v, unsigned char* p) {
    const auto store = [p](auto x) { std::memcpy(p, &x, sizeof x); };
    switch (t) {
    case EF_FLOAT32:
        return store(float(v));
    case EF_FLOAT64:
        return store(v);
    case EF_BFLOAT16: {
        const auto f = float(v);
        uint32_t wide;
        std::memcpy(&wide, &f, sizeof wide);
        return store(uint16_t(wide >> 16));
    }
    case EF_FLOAT16: {
        if (v == 0) return store(uint16_t(0));
        int e = 0;
        const double f = std::frexp(v, &e);  // v = f 2^e, f in [0.5, 1)
        return store(uint16_t((e + 14) << 10 | (int(f * 2048) & 0x3ff)));
    }
    case EF_INT8:
        return store(int8_t(v));
    case EF_INT32:
        return store(int32_t(v));
    case EF_INT64:
        return store(int64_t(v));
    case EF_UINT8:
        return store(uint8_t(v));
    case EF_UINT32:
        return store(uint32_t(v));
    case EF_UINT64:
        return store(uint64_t(v));
    }
}

struct job {
    kind what;
    ef_type_t type;
    ef_op_t op;
    int nranks;
    int root = 0;
};

/// All ranks' results, computed without the pattern's knowledge of them.
std::vector<bytes> dull(const job& j, const shape& s, uint32_t salt) {
    const pattern p(j.what, j.type, j.op, j.nranks, j.root, salt);
    const size_t e = ef_type_size(j.type);
    std::vector<bytes> in, out;
    for (int r = 0; r < j.nranks; ++r) {
        in.emplace_back(s.send_elements * e);
        p.fill(in.back().data(), s, r);
        out.emplace_back(s.recv_elements * e);
    }
    const size_t n = size_t(j.nranks);
    for (size_t r = 0; r < n; ++r)
        for (size_t i = 0; i < s.recv_elements; ++i) {
            unsigned char* to = &out[r][i * e];
            if (j.what == kind::broadcast) {
                std::memcpy(to, &in[size_t(j.root)][i * e], e);
            } else if (j.what == kind::sendrecv) {
                std::memcpy(to, &in[(r + n - 1) % n][i * e], e);
            } else if (j.what == kind::allgather) {
                std::memcpy(to, &in[i / s.count][(i % s.count) * e], e);
            } else {
                const size_t at = (j.what == kind::reduce_scatter ? r * s.count : 0) + i;
                double v = to_double(j.type, &in[0][at * e]);
                for (size_t q = 1; q < n; ++q) {
                    const double x = to_double(j.type, &in[q][at * e]);
                    v = j.op == EF_PROD  ? v * x
                        : j.op == EF_MIN ? std::min(v, x)
                        : j.op == EF_MAX ? std::max(v, x)
                                         : v + x;
                }
                EXPECT_LE(v, largest_exact(j.type));
                if (j.op == EF_AVG) v /= double(n);
                EXPECT_EQ(v, std::floor(v));
                from_double(j.type, v, to);
            }
        }
    return out;
}

std::string words(const job& j) {
    return std::string(find_collective(j.what).name) + " " + std::string(type_name(j.type)) + " " +
           std::string(op_name(j.op)) + " ranks " + std::to_string(j.nranks);
}

std::vector<job> all_jobs() {
    std::vector<job> all;
    for (const ef_type_t t : all_types())
        for (const int n : {1, 2, 3, 5, 8, 17, 100}) {
            for (const ef_op_t o : all_ops()) {
                all.push_back({kind::allreduce, t, o, n});
                all.push_back({kind::reduce_scatter, t, o, n});
            }
            all.push_back({kind::allgather, t, EF_SUM, n});
            all.push_back({kind::broadcast, t, EF_SUM, n, n - 1});
            all.push_back({kind::sendrecv, t, EF_SUM, n});
        }
    return all;
}

TEST(Pattern, KnowsTheResultOfEveryCollectiveTypeAndOperation) {
    for (const job& j : all_jobs()) {
        const shape s = shape_of(j.what, 64 * size_t(j.nranks), ef_type_size(j.type), j.nranks);
        const pattern p(j.what, j.type, j.op, j.nranks, j.root, 3);
        ASSERT_TRUE(p.exact()) << words(j);
        const auto out = dull(j, s, 3);
        for (int r = 0; r < j.nranks; ++r)
            ASSERT_EQ(p.count_wrong(out[size_t(r)].data(), s, r), 0u) << words(j) << " rank " << r;
    }
}

TEST(Pattern, CountsEveryElementThatWasChanged) {
    for (const job& j : all_jobs()) {
        const shape s = shape_of(j.what, 1024, ef_type_size(j.type), j.nranks);
        const pattern p(j.what, j.type, j.op, j.nranks, j.root, 1);
        auto out = dull(j, s, 1);
        const size_t e = ef_type_size(j.type);
        const size_t last = s.recv_elements - 1;
        out[0][0] ^= 0x40;                 // low byte of the first element
        out[0][last * e + e - 1] ^= 0x40;  // high byte of the last
        // One unit in the last place is not an error of a float32 average; 0x40 units are.
        EXPECT_EQ(p.count_wrong(out[0].data(), s, 0), last == 0 ? 1u : 2u) << words(j);
    }
}

TEST(Pattern, TellsAPoisonedBufferFromAResult) {
    for (const job& j : all_jobs()) {
        if (j.nranks > 8) continue;
        const shape s = shape_of(j.what, 4096, ef_type_size(j.type), j.nranks);
        const pattern p(j.what, j.type, j.op, j.nranks, j.root, 0);
        bytes out(s.recv_elements * ef_type_size(j.type));
        p.poison(out.data(), s);
        EXPECT_GT(p.count_wrong(out.data(), s, 0), s.recv_elements * 9 / 10) << words(j);
    }
}

TEST(Pattern, SeesTheResultOfAnEarlierCall) {
    for (const ef_op_t o : all_ops()) {
        const job j{kind::allreduce, EF_FLOAT32, o, 4};
        const shape s = shape_of(j.what, 4096, 4, 4);
        const auto old = dull(j, s, 0);
        const pattern p(j.what, j.type, j.op, j.nranks, 0, 1);
        EXPECT_GT(p.count_wrong(old[0].data(), s, 0), s.count / 4) << words(j);
    }
}

TEST(Pattern, SeesAMissingRankAndAnElementInTheWrongPlace) {
    const job j{kind::allreduce, EF_INT32, EF_SUM, 4};
    const shape s = shape_of(j.what, 4096, 4, 4);
    auto out = dull(j, s, 0);
    const pattern p(j.what, j.type, j.op, 4, 0, 0);
    bytes shifted(out[0].begin() + 4, out[0].end());
    shifted.resize(out[0].size());
    EXPECT_GT(p.count_wrong(shifted.data(), s, 0), s.count * 9 / 10);

    bytes one(s.count * 4);
    p.fill(one.data(), s, 2);
    for (size_t i = 0; i < s.count; ++i)
        from_double(EF_INT32,
                    to_double(EF_INT32, &out[0][i * 4]) - to_double(EF_INT32, &one[i * 4]),
                    &out[0][i * 4]);
    EXPECT_GT(p.count_wrong(out[0].data(), s, 0), s.count * 9 / 10);
}

TEST(Pattern, AdmitsWhereNoExactAverageExists) {
    EXPECT_TRUE(pattern(kind::allreduce, EF_INT8, EF_AVG, 127, 0, 0).exact());
    EXPECT_FALSE(pattern(kind::allreduce, EF_INT8, EF_AVG, 128, 0, 0).exact());
    EXPECT_TRUE(pattern(kind::allreduce, EF_BFLOAT16, EF_SUM, 4096, 0, 0).exact());
}

TEST(Pattern, AllowsOneUnitInTheLastPlaceOfAFloat32AverageAndNoMore) {
    const job j{kind::allreduce, EF_FLOAT32, EF_AVG, 3};
    const shape s = shape_of(j.what, 4, 4, 3);
    auto out = dull(j, s, 0);
    const pattern p(j.what, j.type, j.op, 3, 0, 0);
    float x;
    std::memcpy(&x, out[0].data(), 4);
    const float one = std::nextafter(x, 1e9f);
    EXPECT_EQ(p.count_wrong(&one, s, 0), 0u);
    const float two = std::nextafter(one, 1e9f);
    EXPECT_EQ(p.count_wrong(&two, s, 0), 1u);
}

}  // namespace
}  // namespace ef::perf
