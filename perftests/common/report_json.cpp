// JSON lines, schema 1: a "run" record (machine, ranks, options in force), one "result" per row, an
// "end". A key carries the unit of its value; a value that is not known is null. A field is never
// renamed within a schema number, only added.
#include "perftests/common/names.hpp"
#include "perftests/common/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ef::perf {
namespace {

using json = nlohmann::ordered_json;
constexpr int schema = 1;

json known(double x) { return x >= 0 && std::isfinite(x) ? json(x) : json(nullptr); }
json given(const std::string& s) { return s.empty() ? json(nullptr) : json(s); }

json options_json(const options& o) {
    json types = json::array(), ops = json::array(), memory = json::array();
    for (const ef_type_t t : o.sweep.types) types.push_back(type_name(t));
    for (const ef_op_t p : o.sweep.ops) ops.push_back(op_name(p));
    if (o.sweep.malloc_memory) memory.push_back("malloc");
    if (o.sweep.shared_memory) memory.push_back("shared");
    const auto positive = [](auto x) { return x > 0 ? json(x) : json(nullptr); };
    return {{"sizes_bytes", o.sweep.sizes},
            {"types", types},
            {"ops", ops},
            {"memory", memory},
            {"out_of_place", o.sweep.out_of_place},
            {"in_place", o.sweep.in_place},
            {"root", o.sweep.root},
            {"iterations", positive(o.effort.iterations)},
            {"warmup_iterations", o.effort.warmup ? json(*o.effort.warmup) : json(nullptr)},
            {"duration_s", positive(o.effort.duration_s)},
            {"precision_percent", o.effort.precision_percent},
            {"bound_s", o.effort.bound_s},
            {"checks", o.effort.checks},
            {"spawned_ranks", positive(o.job.ranks)},
            {"pin", o.job.ranks > 0 && o.job.pin},
            {"timeout_s", positive(o.job.timeout_s)},
            {"transport", given(o.job.transport)},
            {"algorithm", given(o.job.algorithm)},
            {"interface", given(o.job.interface_)},
            {"chunk_bytes", positive(o.job.chunk_bytes)},
            {"fabric", given(o.job.fabric)},
            {"sync", given(o.job.sync)},
            {"steer", given(o.job.steer)},
            {"min_gbps", positive(o.output.min_gbps)},
            {"max_us", positive(o.output.max_us)}};
}

json plan_json(const row& r) {
    if (!r.planned) return nullptr;
    return {{"algorithm", r.algorithm},
            {"medium", r.medium},
            {"rounds", r.rounds},
            {"chunk_bytes", r.chunk_bytes},
            {"predicted_us", r.predicted_us},
            {"limit_us", r.limit_us},
            {"bytes_sent", r.bytes_sent},
            {"bytes_read", r.bytes_read},
            {"bytes_written", r.bytes_written}};
}

class json_report final : public report {
public:
    explicit json_report(const std::string& file) : out_(file) {}

    void begin(const run_facts& f) override {
        what_ = f.what;
        json peers = json::array();
        for (size_t r = 0; r < f.peers.size(); ++r)
            peers.push_back({{"rank", r},
                             {"host", f.peers[r].host},
                             {"pid", f.peers[r].pid},
                             {"medium", f.peers[r].medium}});
        write({{"schema", schema},
               {"record", "run"},
               {"program", f.what->program},
               {"collective", f.what->name},
               {"library_version", f.machine.library},
               {"time_utc", f.machine.time_utc},
               {"host", f.machine.host},
               {"kernel", f.machine.kernel},
               {"cpu", f.machine.cpu},
               {"cores", f.machine.cores},
               {"clock_read_ns", f.machine.clock_read_ns},
               {"core_round_trip_ns", known(f.probe_before_ns)},
               {"cpu_pressure_percent", known(f.pressure_before_percent)},
               {"ranks", f.nranks},
               {"peers", peers},
               {"options", options_json(f.opt)}});
    }

    void add(const row& r) override {
        const measurement& t = r.time;
        json line = {{"schema", schema},
                     {"record", "result"},
                     {"collective", what_->name},
                     {"bytes", r.call.bytes},
                     {"count_elements", r.call.count},
                     {"type", type_name(r.type)},
                     {"op", what_->has_op ? json(op_name(r.op)) : json(nullptr)},
                     {"place", r.in_place ? "in" : "out"},
                     {"memory", r.shared ? "shared" : "malloc"},
                     {"iterations", t.iterations},
                     {"windows", t.windows},
                     {"avg_us", t.avg_us},
                     {"p50_us", t.p50_us},
                     {"p99_us", t.p99_us},
                     {"min_us", t.min_us},
                     {"max_us", t.max_us},
                     {"half_width_percent", known(t.half_width_percent)},
                     {"settled", t.settled},
                     {"algbw_GBps", r.algbw},
                     {"busbw_GBps", r.busbw},
                     {"slowest_rank", t.slowest_rank},
                     {"plan", plan_json(r)},
                     {"wrong_elements", r.checked ? json(r.wrong) : json(nullptr)},
                     {"threshold_missed", r.missed}};
        if (!r.explanation.empty()) line["explanation"] = r.explanation;
        write(line);
    }

    void end(const run_end& e) override {
        write({{"schema", schema},
               {"record", "end"},
               {"core_round_trip_ns", known(e.probe_after_ns)},
               {"cpu_pressure_percent", known(e.pressure_after_percent)},
               {"rows", e.rows},
               {"unsettled", e.unsettled},
               {"thresholds_missed", e.missed},
               {"wrong_elements", e.wrong},
               {"exit_status", e.exit_status}});
    }

private:
    void write(const json& line) {
        out_.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    }

    output_file out_;
    const collective* what_ = nullptr;
};

}  // namespace

std::unique_ptr<report> make_json_report(const std::string& file) {
    return std::make_unique<json_report>(file);
}

}  // namespace ef::perf
