#include "perftests/common/runner.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/names.hpp"
#include "perftests/common/sizes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace ef::perf {

std::vector<test_case> list_cases(const options& o, const collective& what, int nranks) {
    std::vector<test_case> all;
    const auto add_sizes = [&](ef_type_t type, ef_op_t op, bool in_place, bool shared) {
        const size_t first = all.size();
        for (const uint64_t bytes : o.sweep.sizes) {
            const shape s = shape_of(what.what, bytes, ef_type_size(type), nranks);
            const auto same = [&](const test_case& t) { return t.call.count == s.count; };
            if (std::none_of(all.begin() + std::ptrdiff_t(first), all.end(), same))
                all.push_back({type, op, in_place, shared, s});
        }
    };
    for (const bool shared : {false, true}) {
        if (!(shared ? o.sweep.shared_memory : o.sweep.malloc_memory)) continue;
        for (const ef_type_t type : o.sweep.types)
            for (const ef_op_t op : o.sweep.ops) {
                if (o.sweep.out_of_place) add_sizes(type, op, false, shared);
                if (o.sweep.in_place) add_sizes(type, op, true, shared);
            }
    }
    return all;
}

double fingerprint(const options& o, const std::vector<test_case>& cases) noexcept {
    uint64_t h = 0xcbf29ce484222325u;  // FNV-1a over 64 bit words
    const auto mix = [&h](uint64_t x) { h = (h ^ x) * 0x100000001b3u; };
    for (const test_case& t : cases) {
        mix(t.call.count);
        mix(uint64_t(t.type) << 8 | uint64_t(t.op) << 2 | uint64_t(t.in_place) << 1 |
            uint64_t(t.shared));
    }
    mix(o.effort.iterations);
    mix(o.effort.warmup.value_or(UINT64_MAX));
    mix(uint64_t(o.effort.duration_s * 1e6));
    mix(uint64_t(o.effort.bound_s * 1e6));
    mix(uint64_t(o.effort.precision_percent * 1e6));
    mix(o.effort.checks);
    mix(uint64_t(o.sweep.root));
    return double(h >> 12);  // 52 bits: exact in a double
}

runner::runner(ef_comm_t comm, const options& o, const collective& what, int rank, int nranks)
    : comm_(comm),
      o_(o),
      what_(what),
      rank_(rank),
      nranks_(nranks),
      terminal_(rank == 0 && isatty(STDERR_FILENO)) {}

void runner::run(const std::vector<test_case>& cases,
                 const std::vector<std::unique_ptr<report>>& reports, run_end& e) {
    std::unique_ptr<buffer_pair> memory;
    of_ = cases.size();
    for (at_ = 0; at_ < of_; ++at_) {
        const test_case& t = cases[at_];
        if (at_ == 0 || t.shared != cases[at_ - 1].shared) {
            size_t largest = 0;
            for (const test_case& other : cases)
                if (other.shared == t.shared) largest = std::max(largest, size_t(other.call.bytes));
            memory.reset();  // before the next one is allocated
            memory = std::make_unique<buffer_pair>(largest, t.shared, o_.sweep.out_of_place);
        }
        const row r = measure(t, *memory);
        clear_progress();
        ++e.rows;
        e.unsettled += !r.time.settled;
        e.missed += r.missed;
        e.wrong += r.wrong;
        for (const auto& to : reports) to->add(r);
    }
}

row runner::measure(const test_case& t, const buffer_pair& memory) {
    const size_t element = ef_type_size(t.type);
    const auto [send, recv] = memory.of(what_.what, t.call, element, rank_, t.in_place);
    const call c{what_.what, send,          recv,  t.call.count, t.type,
                 t.op,       o_.sweep.root, rank_, nranks_,      comm_};
    row r;
    r.type = t.type;
    r.op = t.op;
    r.in_place = t.in_place;
    r.shared = t.shared;
    r.call = t.call;
    progress(at_, of_, t, 0);
    r.checked = o_.effort.checks > 0 &&
                pattern(what_.what, t.type, t.op, nranks_, o_.sweep.root, 0).exact();
    if (r.checked) r.wrong = check(t, c, 0);
    r.time = meter_.run(c, o_.effort, [&](double s) { progress(at_, of_, t, s); });
    for (unsigned i = 1; r.checked && i < o_.effort.checks; ++i) r.wrong += check(t, c, i);
    if (rank_ != 0) return r;
    describe_plan(t, r);
    r.algbw = double(t.call.bytes) / (r.time.avg_us * 1e3);
    r.busbw = r.algbw * bus_factor(what_.what, nranks_);
    judge(r);
    return r;
}

uint64_t runner::check(const test_case& t, const call& c, uint32_t salt) {
    const pattern p(what_.what, t.type, t.op, nranks_, o_.sweep.root, salt);
    p.poison(c.recv, t.call);
    p.fill(const_cast<void*>(c.send), t.call, rank_);
    must(make(c), what_.name);
    const double mine = double(p.count_wrong(c.recv, t.call, rank_));
    double wrong = 0;
    for (const double n : gather(comm_, nranks_, {&mine, 1})) wrong += n;
    return uint64_t(wrong);
}

void runner::describe_plan(const test_case& t, row& r) const {
    if (!what_.planned) return;
    ef_plan_info info{};
    info.size = sizeof info;
    must(ef_comm_plan(comm_, *what_.planned, t.call.count, t.type, t.op, t.shared, &info),
         "ef_comm_plan");
    r.planned = true;
    r.algorithm = info.algorithm ? info.algorithm : "";
    r.medium = info.medium ? info.medium : "";
    r.rounds = info.rounds;
    r.chunk_bytes = info.chunk_bytes;
    r.predicted_us = info.predicted_us;
    r.limit_us = info.limit_us;
    r.bytes_sent = info.bytes_sent;
    r.bytes_read = info.bytes_read;
    r.bytes_written = info.bytes_written;
    if (o_.output.explain) r.explanation = explain(t);
}

std::string runner::explain(const test_case& t) const {
    std::string text(4096, '\0');
    for (;;) {
        size_t needed = 0;
        must(ef_comm_explain(comm_, *what_.planned, t.call.count, t.type, t.shared, text.data(),
                             text.size(), &needed),
             "ef_comm_explain");
        const bool fits = needed < text.size();
        text.resize(fits ? needed : needed + 1);
        if (fits) return text;
    }
}

void runner::judge(row& r) const {
    const bool slow = o_.output.max_us > 0 && r.time.avg_us > o_.output.max_us;
    const bool narrow = o_.output.min_gbps > 0 && r.busbw * 8 < o_.output.min_gbps;
    r.missed = slow || narrow;
}

void runner::progress(size_t at, size_t of, const test_case& t, double seconds) const {
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K{} {}/{}: {} {} {} {:.1f} s", what_.name, at + 1, of,
               format_size(t.call.bytes), type_name(t.type), op_name(t.op), seconds);
    fflush(stderr);
}

void runner::clear_progress() const {
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K");
    fflush(stderr);
}

}  // namespace ef::perf
