#include "tests/support/random_program.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "tests/support/scalars.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ef::test {
namespace {

template <class T>
T draw_value(const statement& s, numbers& n) {
    const uint64_t bits = n.next();
    if constexpr (!is_floating<T>) {
        return T(bits);
    } else {
        // Uniform in [-2, 2), or for products of magnitude in [0.5, 2).
        double x = double(int64_t(bits)) / double(uint64_t(1) << 62);
        if (s.op == EF_PROD) x = std::copysign(0.5 + std::fabs(x) * 0.75, x);
        if (s.special && bits % 8 == 0) {
            const double special[] = {0.0, -0.0, std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
            x = special[(bits >> 8) % 5];
        }
        if constexpr (is_16bit<T>) return narrow<T>(float(x));
        else return T(x);
    }
}

size_t draw_count(numbers& n) {
    const uint64_t kind = n.below(1000);
    if (kind < 50) return 0;
    if (kind < 400) return 1 + n.below(16);
    if (kind < 750) return 1 + n.below(1000);
    if (kind < 950) return 1 + n.below(20'000);
    if (kind < 996) return 1 + n.below(100'000);
    return 1 + n.below(1'000'000);
}

}  // namespace

std::vector<communicator_recipe> draw_world(uint64_t seed, int nranks, int creations) {
    numbers n(seed);
    std::vector<communicator_recipe> world;
    for (int i = 0; i < creations; ++i) {
        communicator_recipe c;
        c.root = i;
        if (i > 0) {
            const auto all = algorithms();
            c.algorithm = all[n.below(all.size())].name;
            if (n.percent(50)) c.chunk_bytes = uint64_t(1024) << n.below(8);
            c.tcp = n.percent(25);
        }
        world.push_back(c);
    }
    for (int i = 0; i < 3; ++i) {
        communicator_recipe c = world[n.below(size_t(creations))];
        c.parent = c.root;
        const uint64_t colors = 1 + n.below(3);
        for (int r = 0; r < nranks; ++r) {
            c.color.push_back(n.percent(10) ? -1 : int(n.below(colors)));
            c.key.push_back(int(n.below(4)) - 2);
        }
        world.push_back(c);
    }
    return world;
}

std::vector<int> members_of(const std::vector<communicator_recipe>& world, size_t which, int nranks,
                            int rank) {
    const communicator_recipe& c = world[which];
    std::vector<int> all;
    for (int r = 0; r < nranks; ++r)
        if (c.parent < 0 || c.color[size_t(r)] == c.color[size_t(rank)]) all.push_back(r);
    if (c.parent < 0) return all;
    if (c.color[size_t(rank)] < 0) return {};
    std::stable_sort(all.begin(), all.end(),
                     [&](int a, int b) { return c.key[size_t(a)] < c.key[size_t(b)]; });
    return all;
}

std::string statement::text() const {
    static const char* const collectives[] = {"allreduce", "reduce_scatter", "allgather",
                                              "broadcast", "barrier"};
    static const char* const ops[] = {"sum", "prod", "min", "max", "avg"};
    return fmt::format("{}{} of {} of type {}, {}, on communicator {}", blocking ? "" : "i",
                       exchange ? "exchange" : collectives[coll], count, int(type), ops[op], comm);
}

memory_kind statement::memory(int rank) const {
    const uint64_t k = mix(seed, 2000 + uint64_t(rank)) % 10;
    return k < 4 ? memory_kind::ordinary : k < 7 ? memory_kind::offset : memory_kind::shared;
}

random_program draw_program(uint64_t seed, size_t communicators) {
    numbers n(seed);
    random_program p;
    p.threaded = n.percent(15);
    for (uint64_t k = 1 + n.below(6); k--;) {
        statement s;
        s.comm = n.below(communicators);
        s.exchange = n.percent(15);
        s.blocking = !s.exchange && n.percent(30);
        const uint64_t kind = n.below(20);
        s.coll = kind < 9    ? EF_ALLREDUCE
                 : kind < 12 ? EF_REDUCE_SCATTER
                 : kind < 15 ? EF_ALLGATHER
                 : kind < 18 ? EF_BROADCAST
                             : EF_BARRIER;
        s.type = ef_type_t(n.below(10));
        s.op = ef_op_t(n.below(5));
        s.count = draw_count(n);
        s.seed = n.next();
        s.root = unsigned(n.below(64));
        s.shift = unsigned(n.below(64));
        s.special = n.percent(10);
        p.statements.push_back(s);
    }
    return p;
}

bytes draw_input(const statement& s, int rank, size_t bytes_wanted) {
    bytes data(bytes_wanted);
    numbers n(mix(s.seed, uint64_t(rank)));
    with_type(s.type, [&]<class T>() {
        for (size_t at = 0; at < data.size(); at += sizeof(T)) {
            const T x = draw_value<T>(s, n);
            memcpy(data.data() + at, &x, sizeof(T));
        }
    });
    return data;
}

uint64_t hash_of(const void* data, size_t n) {
    const std::byte* p = static_cast<const std::byte*>(data);
    uint64_t h = n * 0x9e3779b97f4a7c15 + 1;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
    }
    for (; n; ++p, --n) h = (h ^ uint64_t(*p)) * 0x100000001b3;
    return h ^ (h >> 29);
}

}  // namespace ef::test
