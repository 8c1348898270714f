#include "perftests/common/sizes.hpp"
#include "perftests/p2p/ends.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace ef::perf::p2p {
namespace {

class client {
public:
    client(const test& what, const p2p_options& o, const machine_facts& m, ef_pair_t pair)
        : what_(what), o_(o), machine_(m), s_(pair, what, o), terminal_(isatty(STDERR_FILENO)) {}

    int run() {
        try {
            return measure_all();
        } catch (const failure& e) {
            if (!e.secondary()) s_.confess(e);
            throw;
        }
    }

private:
    int measure_all();
    run_about introduce();
    result_row measure(uint64_t bytes, uint64_t salt);
    uint64_t verify(uint64_t bytes, uint64_t salt);
    json start(const char* word, uint64_t bytes, uint64_t salt);
    json stop();
    bool judge(const result_row& r) const;
    void progress(uint64_t bytes, double seconds) const;

    const test& what_;
    const p2p_options& o_;
    const machine_facts& machine_;
    session s_;
    bool terminal_;
};

run_about client::introduce() {
    run_about a;
    a.what = &what_;
    a.opt = &o_;
    a.machine = machine_;
    a.pressure_before_percent = cpu_pressure_percent();
    if (a.machine.cores.size() >= 2) {
        a.core_a = a.machine.cores[0];
        a.core_b = a.machine.cores[1];
        a.probe_before_ns = core_round_trip_ns(a.core_a, a.core_b);
    }
    s_.say({{"word", "hello"}, {"program", what_.program}, {"options", in_force(o_)}});
    s_.hear("welcome");
    s_.open_lanes();
    a.peer = s_.peer();
    a.medium = s_.medium();
    if ((o_.gid_index >= 0 || o_.rdma_cm) && a.medium.rfind("verbs", 0) != 0)
        fmt::print(stderr, "{}: --gid-index and --rdma_cm have no meaning over {}\n", what_.program,
                   a.medium);
    return a;
}

int client::measure_all() {
    const run_about about = introduce();
    const auto reports = make_p2p_reports(o_.output);
    for (const auto& to : reports) to->begin(about);
    run_end end;
    for (const uint64_t bytes : o_.traffic.sizes) {
        const result_row r = measure(bytes, 2 * end.rows);
        if (terminal_) fmt::print(stderr, "\r\033[K");
        ++end.rows;
        end.unsettled += !r.here.settled;
        end.missed += r.missed;
        end.wrong += r.wrong_bytes;
        for (const auto& to : reports) to->add(r);
    }
    s_.part();
    end.exit_status = end.wrong > 0 ? exit_wrong_data : end.missed > 0 ? exit_missed : exit_good;
    for (const auto& to : reports) to->end(end);
    if (end.unsettled > 0 && o_.effort.iterations == 0)
        fmt::print(stderr, "{} of {} sizes did not settle to +-{} %: see --precision, --bound\n",
                   end.unsettled, end.rows, o_.effort.precision_percent);
    return end.exit_status;
}

json client::start(const char* word, uint64_t bytes, uint64_t salt) {
    s_.say({{"word", word}, {"size", bytes}, {"salt", salt}, {"posted", begin_row(s_, bytes)}});
    return s_.hear("ready");
}

json client::stop() {
    s_.say({{"word", "stop"}, {"posted", posted_so_far(s_)}});
    const json done = s_.hear("done");
    await_received(s_, done.at("posted"));
    return done;
}

uint64_t client::verify(uint64_t bytes, uint64_t salt) {
    proof p(s_, bytes, salt);
    p.fill(true);
    start("verify", bytes, salt);
    p.move();
    const json done = stop();
    return done.at("wrong").get<uint64_t>() + p.count_wrong(true);
}

result_row client::measure(uint64_t bytes, uint64_t salt) {
    result_row r;
    r.bytes = bytes;
    r.verified = o_.traffic.verify;
    if (r.verified) r.wrong_bytes = verify(bytes, salt);
    const json ready = start("row", bytes, 0);
    const tick show = [&](double s) { progress(bytes, s); };
    r.here = what_.latency
                 ? run_latency(s_, bytes, show, ready.at("posted").get<std::vector<uint64_t>>())
                 : run_stream(s_, bytes, show);
    const json done = stop();
    if (o_.traffic.bidirectional) {
        sample theirs;
        theirs.gbps = done.at("gbps").get<double>();
        theirs.messages_per_s = done.at("messages_per_s").get<double>();
        r.there = theirs;
    }
    if (r.verified) r.wrong_bytes += verify(bytes, salt + 1);
    r.missed = judge(r);
    return r;
}

bool client::judge(const result_row& r) const {
    const output_options& out = o_.output;
    const bool narrow = out.min_gbps > 0 && r.gbps() < out.min_gbps;
    const bool gap = o_.min_window_gbps > 0 && r.here.min_window_gbps < o_.min_window_gbps;
    const double us = what_.latency ? r.here.avg_us : r.here.p99_us;
    return narrow || gap || (out.max_us > 0 && us > out.max_us);
}

void client::progress(uint64_t bytes, double seconds) const {
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K{} {} {:.1f} s", what_.name, format_size(bytes), seconds);
    fflush(stderr);
}

}  // namespace

int run_client(const test& what, const p2p_options& o, const machine_facts& machine,
               const std::string& address, const char* key) {
    ef_pair_options opt{};
    opt.size = sizeof opt;
    opt.key = key;
    ef_pair_t pair = nullptr;
    must(ef_pair_connect(address.c_str(), &opt, uint32_t(std::ceil(o.timeout_s * 1000)), &pair),
         "connecting");
    return client(what, o, machine, pair).run();
}

}  // namespace ef::perf::p2p
