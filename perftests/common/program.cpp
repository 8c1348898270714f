#include "perftests/common/program.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/facts.hpp"
#include "perftests/common/runner.hpp"
#include "perftests/common/sizes.hpp"
#include "perftests/common/spawn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace ef::perf {
namespace {

/// Owns a communicator.
class communicator {
public:
    communicator(const seat& s, const job_options& j) {
        ef_comm_options o{};
        o.size = sizeof o;
        o.timeout_ms = uint32_t(std::ceil(j.timeout_s * 1000));
        o.listen_fd = s.listen_fd;
        o.root = text(s.root);
        o.key = text(s.key);
        o.transport = text(j.transport);
        o.interface_ = text(j.interface_);
        o.algorithm = text(j.algorithm);
        o.chunk_bytes = size_t(j.chunk_bytes);
        o.fabric = text(j.fabric);
        o.sync = text(j.sync);
        o.steer = text(j.steer);
        must(ef_comm_create(s.rank, s.nranks, &o, &comm_), "joining");
        must(ef_comm_rank(comm_, &rank), "ef_comm_rank");
        must(ef_comm_size(comm_, &nranks), "ef_comm_size");
    }
    communicator(const communicator&) = delete;
    communicator& operator=(const communicator&) = delete;
    /// Reached with a communicator only on the way out of a failure: the others should not wait for
    /// this rank until their timeout.
    ~communicator() {
        if (!comm_) return;
        ef_comm_abort(comm_);
        ef_comm_destroy(comm_);
    }
    ef_comm_t get() const noexcept { return comm_; }
    void close() {
        const ef_comm_t c = std::exchange(comm_, nullptr);
        must(ef_comm_destroy(c), "leaving");
    }

    int rank = 0;
    int nranks = 1;

private:
    static const char* text(const std::string& s) { return s.empty() ? nullptr : s.c_str(); }
    ef_comm_t comm_ = nullptr;
};

peer_fact describe_peer(ef_comm_t comm, int rank) {
    ef_peer_info info{};
    info.size = sizeof info;
    must(ef_comm_peer(comm, rank, &info), "ef_comm_peer");
    return {info.pid, info.host ? info.host : "", info.medium ? info.medium : ""};
}

run_facts gather_facts(const communicator& c, const options& o, const collective& what,
                       const machine_facts& machine) {
    run_facts f;
    f.what = &what;
    f.opt = o;
    f.nranks = c.nranks;
    f.machine = machine;
    for (int r = 0; r < c.nranks; ++r) f.peers.push_back(describe_peer(c.get(), r));
    f.pressure_before_percent = cpu_pressure_percent();
    if (machine.cores.size() >= 2) {
        f.core_a = machine.cores[0];
        f.core_b = machine.cores[1];
        f.probe_before_ns = core_round_trip_ns(f.core_a, f.core_b);
    }
    return f;
}

/// Does what all ranks of this host will allocate fit its memory? Swapping would measure the disk,
/// and running out would kill somebody.
bool memory_suffices(const communicator& c, const options& o, const std::vector<test_case>& cases,
                     uint64_t& needed, uint64_t& available) {
    const std::string here = describe_peer(c.get(), c.rank).host;
    uint64_t ranks_here = 0, largest = 0;
    for (int r = 0; r < c.nranks; ++r) ranks_here += describe_peer(c.get(), r).host == here;
    for (const test_case& t : cases) largest = std::max(largest, t.call.bytes);
    needed = largest * (o.sweep.out_of_place ? 2 : 1) * ranks_here;
    available = available_bytes();
    return available == 0 || needed <= available;
}

/// Throws on all ranks alike if one of them cannot or should not go on.
void agree_to_run(const communicator& c, const options& o, const collective& what,
                  const std::vector<test_case>& cases) {
    if (o.sweep.root >= c.nranks)
        throw failure(
            exit_usage,
            fmt::format("--root {} of {} ranks: 0 to {}", o.sweep.root, c.nranks, c.nranks - 1),
            c.rank != 0);
    if (what.what == kind::sendrecv && c.nranks < 2)
        throw failure(exit_cannot_run, "sendrecv needs 2 ranks: use --ranks or a launcher");
    uint64_t needed = 0, available = 0;
    const bool fits = memory_suffices(c, o, cases, needed, available);
    const double mine[] = {fingerprint(o, cases), fits ? 1.0 : 0.0, double(needed),
                           double(available)};
    const std::vector<double> all = gather(c.get(), c.nranks, mine);
    for (int r = 0; r < c.nranks; ++r) {
        const double* theirs = &all[size_t(r) * 4];
        if (theirs[0] != all[0])
            throw failure(exit_usage, fmt::format("rank {} was given other options than rank 0", r),
                          c.rank != 0);
        if (theirs[1] == 0)
            throw failure(exit_cannot_run,
                          fmt::format("rank {}'s host needs {:.1f} GiB for all its ranks' buffers "
                                      "and has {:.1f} GiB available: use smaller sizes",
                                      r, theirs[2] / (1 << 30), theirs[3] / (1 << 30)),
                          c.rank != 0);
    }
}

void warn_before(const communicator& c, const seat& s, const options& o, const machine_facts& m) {
    if (c.nranks == 1 && !s.spawned())
        fmt::print(stderr, "nothing started this program: 1 rank; --ranks N starts N here\n");
    if (s.spawned() && size_t(s.nranks) > m.cores.size())
        fmt::print(stderr, "{} ranks share {} cores\n", s.nranks, m.cores.size());
    if (o.output.min_gbps > 0 && c.nranks == 1)
        fmt::print(stderr, "1 rank has no bus: --min-gbps will be missed\n");
}

int exit_status(const run_end& e) {
    if (e.wrong > 0) return exit_wrong_data;
    return e.missed > 0 ? exit_missed : exit_good;
}

/// One rank from joining to leaving. Throws `failure`.
int run_rank(const options& o, const collective& what, const seat& s) {
    const machine_facts machine = read_machine();
    communicator c(s, o.job);
    // After joining, so that the library sees the cores of the job and not the one of this rank.
    const size_t cores = machine.cores.size();
    if (s.spawned() && o.job.pin && size_t(s.nranks) <= cores)
        bind_to_core(machine.cores[size_t(c.rank) % cores]);

    const std::vector<test_case> cases = list_cases(o, what, c.nranks);
    std::vector<std::unique_ptr<report>> reports;
    run_facts facts;
    if (c.rank == 0) {
        reports = make_reports(o.output);
        facts = gather_facts(c, o, what, machine);  // the others wait in agree_to_run
    }
    agree_to_run(c, o, what, cases);
    if (c.rank == 0) {
        warn_before(c, s, o, machine);
        for (const auto& to : reports) to->begin(facts);
    }
    run_end end;
    runner(c.get(), o, what, c.rank, c.nranks).run(cases, reports, end);
    const bool reporting = c.rank == 0;
    c.close();
    if (!reporting) return exit_good;  // rank 0 speaks for all

    if (facts.core_b >= 0) end.probe_after_ns = core_round_trip_ns(facts.core_a, facts.core_b);
    end.pressure_after_percent = cpu_pressure_percent();
    end.exit_status = exit_status(end);
    for (const auto& to : reports) to->end(end);
    if (end.unsettled > 0 && o.effort.iterations == 0)
        fmt::print(stderr, "{} of {} rows did not settle to +-{} %: see --precision, --bound\n",
                   end.unsettled, end.rows, o.effort.precision_percent);
    return end.exit_status;
}

/// Under a launcher every rank has its own stderr and no parent chooses the words for all: a rank
/// that merely noticed another's failure leaves them to that one and to rank 0, unless that is
/// lost.
int run_launched(const options& o, const collective& what) {
    try {
        return run_rank(o, what, seat{});
    } catch (const failure& e) {
        const char* rank = std::getenv("EFLOPS_RANK");
        for (const char* name :
             {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK", "SLURM_PROCID"})
            if (!rank) rank = std::getenv(name);
        const std::string who = rank ? fmt::format("rank {}: ", rank) : std::string();
        const std::string words = e.what();
        const bool first = !rank || std::string(rank) == "0";
        const bool first_is_lost = words.find("rank 0 ") != std::string::npos;
        if (first || first_is_lost || !e.secondary())
            fmt::print(stderr, "{}: {}{}\n", what.program, who, words);
        return e.code();
    }
}

/// Where one rank has ended well, the others get long enough to run into the library's own timeout
/// and say why they have not.
unsigned grace_ms(const job_options& j) {
    double ms = j.timeout_s * 1000;
    if (const char* text = std::getenv("EFLOPS_TIMEOUT_MS"); ms == 0 && text)
        ms = std::strtod(text, nullptr);
    return unsigned(std::clamp(ms > 0 ? ms : 60e3, 1e3, 4e9)) + 5000;
}

}  // namespace

int collective_main(kind k, int argc, char** argv) {
    const collective& what = find_collective(k);
    options o;
    try {
        if (const auto end = parse_options(argc, argv, what, o)) return *end;
        if (o.job.ranks == 0) return run_launched(o, what);
        return run_local(what.program, o.job.ranks, grace_ms(o.job),
                         [&](const seat& s) { return run_rank(o, what, s); });
    } catch (const failure& e) {
        fmt::print(stderr, "{}: {}\n", what.program, e.what());
        return e.code();
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}: {}\n", what.program, e.what());
        return exit_failed;
    }
}

}  // namespace ef::perf
