// A thousand random programs against a dull reference. The seed is printed; EF_TEST_SEED repeats
// one, EF_TEST_PROGRAMS changes their number. A job of each layout runs its share of them, so that
// ranks come together once and not for every program.
//
// Checked of every collective: that no byte outside the receive buffer and none of the send buffer
// was written; that all ranks have the same bits; that they are those which scalar code gives in
// the order of the plan that ef_comm_plan names; that they mean what the collective says, exactly
// for integers; and, where a program is run again with another order of waiting, that the bits are
// the same again.
#include "tests/support/random_program.hpp"
#include "tests/support/ranks.hpp"

#include <eflops/transport.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

namespace ef::test {
namespace {

constexpr int creations = 3;
constexpr size_t margin = 128;
constexpr std::byte canary{0xa5};

uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* v = getenv(name);
    return v ? strtoull(v, nullptr, 0) : otherwise;
}

uint64_t master_seed() {
    static const uint64_t seed = from_environment("EF_TEST_SEED", std::random_device()());
    return seed;
}

struct failed {
    std::string why;
};

void must(ef_status_t s, const char* what) {
    if (s != EF_OK)
        throw failed{fmt::format("{}: {}: {}", what, ef_status_name(s), ef_last_error())};
}

/// Memory of one kind with untouchable bytes on both sides.
class region {
public:
    region(memory_kind kind, size_t n, size_t alignment) : bytes_(n) {
        const size_t whole = n + 2 * margin;
        if (kind == memory_kind::shared) {
            void* p = nullptr;
            must(ef_mem_alloc(whole, &p), "ef_mem_alloc");
            shared_ = p;
            base_ = static_cast<std::byte*>(p);
        } else {
            own_.reset(new std::byte[whole + 64]);
            base_ = own_.get();
            if (kind == memory_kind::offset) base_ += alignment;
        }
        std::fill_n(base_, whole, canary);
    }
    region(region&& o) noexcept
        : own_(std::move(o.own_)),
          shared_(std::exchange(o.shared_, nullptr)),
          base_(o.base_),
          bytes_(o.bytes_) {}
    ~region() {
        if (shared_) ef_mem_free(shared_);
    }
    std::byte* data() const { return base_ + margin; }
    size_t size() const { return bytes_; }
    bool margins_untouched() const {
        for (size_t i = 0; i < margin; ++i)
            if (base_[i] != canary || base_[margin + bytes_ + i] != canary) return false;
        return true;
    }

private:
    std::unique_ptr<std::byte[]> own_;
    void* shared_ = nullptr;
    std::byte* base_;
    size_t bytes_;
};

struct member_of {
    ef_comm_t comm = nullptr;
    std::vector<int> ranks;  // of the job
    int me = -1;
    std::vector<int> host_of;
};

/// A statement that has been started by this rank.
struct running {
    const statement* s;
    const member_of* on;
    size_t index;
    bool in_place = false;
    std::vector<region> regions;  // the send buffer, unless in place; the receive buffer
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    size_t in_bytes = 0, out_bytes = 0;
    bytes input;
    ef_request_t request[2] = {};
    int requests = 0;
};

class rank_of_programs {
public:
    rank_of_programs(rank_process& me, const layout& l, uint64_t seed)
        : me_(me), layout_(l), seed_(seed), world_(draw_world(seed, me.nranks, creations)) {}

    void run(uint64_t first, uint64_t programs) {
        try {
            create();
            for (uint64_t p = first; p < first + programs; ++p) {
                where_ = fmt::format("program {}", p);
                const random_program program = draw_program(mix(seed_, p), world_.size());
                const std::vector<uint64_t> once = execute(program, mix(seed_, p ^ 0x1111));
                if (p % 4 == 0 && once != execute(program, mix(seed_, p ^ 0x2222)))
                    throw failed{"the second run gave other bits"};
            }
            where_ = "destroy";
            for (size_t i = comms_.size(); i--;)
                must(ef_comm_destroy(comms_[i].comm), "ef_comm_destroy");
        } catch (const failed& f) {
            me_.fail(fmt::format("{}: {}", where_, f.why));
        } catch (const std::exception& e) {
            me_.fail(fmt::format("{}: {}", where_, e.what()));
        }
    }

private:
    void create() {
        for (size_t i = 0; i < world_.size(); ++i) {
            const communicator_recipe& c = world_[i];
            where_ = fmt::format("communicator {} ({} {})", i, c.parent < 0 ? "new" : "split",
                                 c.algorithm);
            member_of m;
            if (c.parent < 0) {
                ef_comm_options o = me_.options(c.root);
                if (!c.algorithm.empty()) o.algorithm = c.algorithm.c_str();
                o.chunk_bytes = c.chunk_bytes;
                if (c.tcp) o.transport = "tcp";
                must(ef_comm_create(me_.rank, me_.nranks, &o, &m.comm), "ef_comm_create");
            } else {
                must(ef_comm_split(comms_[size_t(c.parent)].comm, c.color[size_t(me_.rank)],
                                   c.key[size_t(me_.rank)], &m.comm),
                     "ef_comm_split");
            }
            m.ranks = members_of(world_, i, me_.nranks, me_.rank);
            if (m.ranks.empty() != (m.comm == nullptr))
                throw failed{"a color < 0 gives no communicator"};
            if (m.comm) {
                m.me = int(std::find(m.ranks.begin(), m.ranks.end(), me_.rank) - m.ranks.begin());
                int rank = -1, size = -1;
                must(ef_comm_rank(m.comm, &rank), "ef_comm_rank");
                must(ef_comm_size(m.comm, &size), "ef_comm_size");
                if (rank != m.me || size != int(m.ranks.size()))
                    throw failed{fmt::format("rank {} of {}, expected {} of {}", rank, size, m.me,
                                             m.ranks.size())};
            }
            m.host_of = hosts(m.ranks, c.tcp);
            comms_.push_back(std::move(m));
        }
    }

    // Numbered in order of appearance, as selection does; over tcp each rank is its own host.
    std::vector<int> hosts(const std::vector<int>& ranks, bool tcp) const {
        std::vector<int> seen, host_of;
        for (int r : ranks) {
            const int h = tcp ? r : layout_.host_of[size_t(r)];
            auto at = std::find(seen.begin(), seen.end(), h);
            if (at == seen.end()) at = seen.insert(seen.end(), h);
            host_of.push_back(int(at - seen.begin()));
        }
        return host_of;
    }

    /// Hashes of what this rank received, by statement.
    std::vector<uint64_t> execute(const random_program& p, uint64_t order) {
        std::vector<uint64_t> hashes(p.statements.size());
        if (!p.threaded) {
            execute(p, order, hashes, 0, 1);
            return hashes;
        }
        std::string why;
        std::thread other([&] {
            try {
                execute(p, order, hashes, 1, 2);
            } catch (const failed& f) {
                me_.fail(fmt::format("{}: {}", where_, f.why));  // ends the process
            }
        });
        try {
            execute(p, order, hashes, 0, 2);
        } catch (const failed& f) {
            me_.fail(fmt::format("{}: {}", where_, f.why));
        }
        other.join();
        return hashes;
    }

    // The statements on every `of`-th communicator.
    void execute(const random_program& p, uint64_t order, std::vector<uint64_t>& hashes,
                 size_t part, size_t of) {
        numbers n(mix(order, uint64_t(me_.rank) * 2 + part));
        std::vector<std::unique_ptr<running>> pending, done;
        for (size_t i = 0; i < p.statements.size(); ++i) {
            const statement& s = p.statements[i];
            if (s.comm % of != part || !comms_[s.comm].comm) continue;
            auto r = std::make_unique<running>(running{&s, &comms_[s.comm], i});
            start(*r);
            pending.push_back(std::move(r));
        }
        while (!pending.empty()) {
            const size_t at = n.below(pending.size());
            if (!advance(*pending[at], n.percent(50))) continue;
            done.push_back(std::move(pending[at]));
            pending.erase(pending.begin() + ptrdiff_t(at));
        }
        std::sort(done.begin(), done.end(),
                  [](const auto& a, const auto& b) { return a->index < b->index; });
        for (const auto& r : done) hashes[r->index] = check(*r);
    }

    // Whether all requests of r are done: by waiting, or by one look.
    static bool advance(running& r, bool wait) {
        for (int i = 0; i < r.requests; ++i) {
            int done = 1;
            if (wait) must(ef_wait(&r.request[i]), r.s->text().c_str());
            else must(ef_test(&r.request[i], &done), r.s->text().c_str());
            if (!done) return false;
            if (r.request[i]) throw failed{"a finished request is not NULL"};
        }
        return true;
    }

    void start(running& r) {
        const statement& s = *r.s;
        const size_t n = r.on->ranks.size(), each = ef_type_size(s.type), one = s.count * each;
        const int me = r.on->me;
        if (s.exchange) return start_exchange(r);
        r.in_bytes = one * (s.coll == EF_REDUCE_SCATTER ? n : 1);
        r.out_bytes = one * (s.coll == EF_ALLGATHER ? n : 1);
        if (s.coll == EF_BARRIER) r.in_bytes = r.out_bytes = 0;
        const bool root = s.coll != EF_BROADCAST || int(s.root % n) == me;
        r.in_place = s.in_place(me);
        if (!r.in_place) {
            r.regions.emplace_back(s.memory(me), r.in_bytes, each);
            r.in = r.regions[0].data();
        }
        r.regions.emplace_back(s.memory(me + 64),
                               r.in_place ? std::max(r.in_bytes, r.out_bytes) : r.out_bytes, each);
        r.out = r.regions.back().data();
        if (r.in_place) {
            std::byte* const whole = r.out;
            if (s.coll == EF_REDUCE_SCATTER) r.out = whole + size_t(me) * one;
            r.in = s.coll == EF_ALLGATHER ? whole + size_t(me) * one : whole;
        }
        if (root) {
            r.input = draw_input(s, me, r.in_bytes);
            if (r.in_bytes) memcpy(r.in, r.input.data(), r.in_bytes);
        }
        call(r, root ? r.in : nullptr);
        if (s.blocking && advance(r, true) == false) throw failed{"ef_wait left a request"};
    }

    static void call(running& r, const std::byte* in) {
        const statement& s = *r.s;
        const ef_comm_t c = r.on->comm;
        const int root = int(s.root % r.on->ranks.size());
        ef_request_t* q = s.blocking ? nullptr : &r.request[r.requests++];
        ef_status_t e = EF_OK;
        switch (s.coll) {
        case EF_ALLREDUCE:
            e = q ? ef_iallreduce(in, r.out, s.count, s.type, s.op, c, q)
                  : ef_allreduce(in, r.out, s.count, s.type, s.op, c);
            break;
        case EF_REDUCE_SCATTER:
            e = q ? ef_ireduce_scatter(in, r.out, s.count, s.type, s.op, c, q)
                  : ef_reduce_scatter(in, r.out, s.count, s.type, s.op, c);
            break;
        case EF_ALLGATHER:
            e = q ? ef_iallgather(in, r.out, s.count, s.type, c, q)
                  : ef_allgather(in, r.out, s.count, s.type, c);
            break;
        case EF_BROADCAST:
            e = q ? ef_ibroadcast(in, r.out, s.count, s.type, root, c, q)
                  : ef_broadcast(in, r.out, s.count, s.type, root, c);
            break;
        case EF_BARRIER:
            e = q ? ef_ibarrier(c, q) : ef_barrier(c);
        }
        must(e, s.text().c_str());
    }

    static void start_exchange(running& r) {
        const statement& s = *r.s;
        const int n = int(r.on->ranks.size()), me = r.on->me, shift = int(s.shift) % n;
        const size_t each = ef_type_size(s.type);
        r.in_bytes = r.out_bytes = s.count * each;
        r.regions.emplace_back(s.memory(me), r.in_bytes, each);
        r.regions.emplace_back(s.memory(me + 64), r.out_bytes, each);
        r.in = r.regions[0].data();
        r.out = r.regions[1].data();
        r.input = draw_input(s, me, r.in_bytes);
        if (r.in_bytes) memcpy(r.in, r.input.data(), r.in_bytes);
        must(ef_isend(r.in, s.count, s.type, (me + shift) % n, r.on->comm, &r.request[0]),
             "ef_isend");
        must(ef_irecv(r.out, s.count, s.type, (me - shift + n) % n, r.on->comm, &r.request[1]),
             "ef_irecv");
        r.requests = 2;
    }

    uint64_t check(const running& r) {
        const statement& s = *r.s;
        const auto bad = [&](const std::string& why) {
            return failed{fmt::format("statement {} ({}), communicator's rank {} of {}{}: {}",
                                      r.index, s.text(), r.on->me, r.on->ranks.size(),
                                      r.in_place ? ", in place" : "", why)};
        };
        for (const region& m : r.regions)
            if (!m.margins_untouched()) throw bad("bytes beside a buffer were written");
        if (!r.in_place && !r.input.empty() && memcmp(r.in, r.input.data(), r.input.size()) != 0)
            throw bad("the send buffer was written");
        bytes output(r.out, r.out + r.out_bytes);
        const uint64_t raw = hash_of(output.data(), output.size());
        if (s.exchange) {
            const int n = int(r.on->ranks.size()), from = (r.on->me - int(s.shift) % n + n) % n;
            if (output != draw_input(s, from, r.in_bytes))
                throw bad(fmt::format("not what rank {} sent", from));
            return raw;
        }
        if (s.coll == EF_BARRIER) return raw;
        const bytes as_received = output;
        canonical(s.type, output);
        const uint64_t mine[2] = {raw, hash_of(output.data(), output.size())};
        std::vector<uint64_t> all(2 * r.on->ranks.size());
        must(ef_allgather(mine, all.data(), 2, EF_UINT64, r.on->comm), "ef_allgather of hashes");
        for (size_t m = 0; m < r.on->ranks.size(); ++m)
            if (s.coll != EF_REDUCE_SCATTER && all[2 * m] != raw)
                throw bad(fmt::format("rank {} of the communicator has other bits", m));
        if (int(r.index % r.on->ranks.size()) == r.on->me)
            if (const std::string why = compare(r, as_received, all); !why.empty()) throw bad(why);
        return raw;
    }

    // With the reference, for all members.
    std::string compare(const running& r, const bytes& output,
                        const std::vector<uint64_t>& hashes) {
        const statement& s = *r.s;
        reference_call c;
        c.coll = s.coll;
        c.nranks = int(r.on->ranks.size());
        c.root = int(s.root) % c.nranks;
        c.count = s.count;
        c.type = s.type;
        c.op = s.op;
        c.host_of = r.on->host_of;
        std::vector<bytes> inputs;
        for (int m = 0; m < c.nranks; ++m) {
            const bool reads = s.coll != EF_BROADCAST || m == c.root;
            c.in_place.push_back(s.in_place(m) || !reads);
            inputs.push_back(reads ? draw_input(s, m, c.input_bytes()) : bytes());
        }
        if (const std::string why = check_meaning(c, inputs, r.on->me, output); !why.empty())
            return why;
        if (s.count == 0) return {};
        ef_plan_info info{};
        info.size = sizeof(info);
        must(ef_comm_plan(r.on->comm, s.coll, s.count, s.type, s.op, 0, &info), "ef_comm_plan");
        c.algorithm = info.algorithm;
        c.chunk_bytes = info.chunk_bytes;
        std::vector<bytes> expected = execute_plans(c, inputs);
        for (size_t m = 0; m < expected.size(); ++m) {
            canonical(s.type, expected[m]);
            if (hash_of(expected[m].data(), expected[m].size()) != hashes[2 * m + 1])
                return fmt::format("rank {}'s bits are not those of {} in chunks of {}", m,
                                   c.algorithm, c.chunk_bytes);
        }
        return {};
    }

    rank_process& me_;
    const layout& layout_;
    uint64_t seed_;
    std::vector<communicator_recipe> world_;
    std::vector<member_of> comms_;
    std::string where_ = "start";
};

const layout layouts[] = {
    {"OneRank", {0}},
    {"TwoOnOneHost", {0, 0}},
    {"TwoOnTwoHosts", {0, 1}},
    {"ThreeOnTwoHosts", {0, 1, 0}},
    {"FourOnOneHost", {0, 0, 0, 0}},
    {"FourOnTwoHosts", {0, 0, 1, 1}},
    {"FourInterleaved", {0, 1, 0, 1}},
    {"FiveOnThreeHosts", {0, 1, 1, 2, 2}},
    {"SixOnOneHost", {0, 0, 0, 0, 0, 0}},
    {"SevenOnThreeHosts", {0, 0, 0, 0, 1, 1, 2}},
    {"EightOnOneHost", {0, 0, 0, 0, 0, 0, 0, 0}},
    {"EightOnTwoHosts", {0, 0, 0, 0, 1, 1, 1, 1}},
    {"ThreeThreads", {0, 0, 0}, true},
};

class RandomPrograms : public testing::TestWithParam<size_t> {};

TEST_P(RandomPrograms, GiveTheBitsOfTheReference) {
    const size_t index = GetParam();
    const layout& l = layouts[index];
    const uint64_t total = from_environment("EF_TEST_PROGRAMS", 1000);
    const uint64_t first = total * index / std::size(layouts);
    const uint64_t programs = total * (index + 1) / std::size(layouts) - first;
    const uint64_t seed = mix(master_seed(), index);
    SCOPED_TRACE(fmt::format("EF_TEST_SEED={}", master_seed()));
    printf("EF_TEST_SEED=%llu, programs %llu to %llu\n", (unsigned long long)master_seed(),
           (unsigned long long)first, (unsigned long long)(first + programs));
    job_setup setup;
    setup.nranks = int(l.host_of.size());
    if (!l.as_threads) setup.host_of = l.host_of;
    setup.as_threads = l.as_threads;
    setup.roots = creations;
    setup.environment = {{"EFLOPS_CALIBRATION", "off"}};
    job j(setup, [&](rank_process& me) { rank_of_programs(me, l, seed).run(first, programs); });
    EXPECT_EQ(j.finish_all(240'000), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, RandomPrograms, testing::Range(size_t(0), std::size(layouts)),
                         [](const auto& p) { return layouts[p.param].name; });

}  // namespace
}  // namespace ef::test
