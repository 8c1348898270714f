#include "perftests/p2p/report.hpp"

#include <fmt/core.h>

#include <cmath>

namespace ef::perf::p2p {
namespace {

using ordered = nlohmann::ordered_json;
constexpr int schema = 1;

/// Four significant digits, no exponent.
std::string number(double x) {
    const int digits = x >= 1000 ? 0 : x >= 100 ? 1 : x >= 10 ? 2 : x >= 1 ? 3 : 4;
    return fmt::format("{:.{}f}", x, digits);
}

class table final : public p2p_report {
public:
    table() : out_("-") {}

    void begin(const run_about& a) override {
        what_ = a.what;
        const traffic_options& t = a.opt->traffic;
        std::string text = fmt::format("# {} {}: {} to {} over {}\n", what_->program,
                                       a.machine.library, a.machine.host, a.peer, a.medium);
        text += fmt::format("# {}, {}, {} cores usable, {}\n", a.machine.cpu, a.machine.kernel,
                            a.machine.cores.size(), a.machine.time_utc);
        if (a.core_b >= 0)
            text += fmt::format(
                "# core {} to core {} and back: {:.0f} ns; tasks waited for a core "
                "{:.1f} % of 10 s\n",
                a.core_a, a.core_b, a.probe_before_ns, std::max(0.0, a.pressure_before_percent));
        text += fmt::format("# {} QP{}", t.qps, t.qps == 1 ? "" : "s");
        if (!what_->latency)
            text +=
                fmt::format(", {} messages under way each{}", t.depth,
                            t.bidirectional ? ", both ways: bandwidth and rate are the sum" : "");
        else text += what_->ping_pong ? ", half of each round trip" : ", each whole round trip";
        text += fmt::format("; '~' behind a mean: not known to +-{} %\n",
                            a.opt->effort.precision_percent);
        text += fmt::format("#{:>10} {:>10} ", "bytes", "messages");
        if (what_->latency)
            text += fmt::format("{:>10}  {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "avg", "min",
                                "p50", "p99", "p99.9", "max", "wrong");
        else
            text += fmt::format("{:>10}  {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "avg",
                                "avg", "slowest", "rate", "p50", "p99", "p99.9", "max", "wrong");
        text += fmt::format("#{:>10} {:>10} ", "(B)", "");
        if (what_->latency)
            text += fmt::format("{:>10}  {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "(us)", "(us)",
                                "(us)", "(us)", "(us)", "(us)", "(B)");
        else
            text +=
                fmt::format("{:>10}  {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "(Gb/s)",
                            "(GB/s)", "(Gb/s)", "(M/s)", "(us)", "(us)", "(us)", "(us)", "(B)");
        out_.write(text);
    }

    void add(const result_row& r) override {
        const sample& h = r.here;
        std::string text = fmt::format(" {:>10} {:>10} ", r.bytes, h.iterations);
        const char mark = h.settled ? ' ' : '~';
        if (what_->latency)
            text += fmt::format("{:>10}{} {:>9}", number(h.avg_us), mark, number(h.min_us));
        else
            text += fmt::format("{:>10}{} {:>9} {:>9} {:>10}", number(r.gbps()), mark,
                                number(r.gbps() / 8), number(h.min_window_gbps),
                                number(r.messages_per_s() / 1e6));
        text += fmt::format(" {:>9} {:>9} {:>9} {:>9} {:>7}{}\n", number(h.p50_us),
                            number(h.p99_us), number(h.p999_us), number(h.max_us),
                            r.verified ? fmt::format("{}", r.wrong_bytes) : "-",
                            r.missed ? "  threshold missed" : "");
        out_.write(text);
    }

    void end(const run_end& e) override {
        out_.write(fmt::format("# {} rows: {} unsettled, {} missed a threshold, {} wrong bytes\n",
                               e.rows, e.unsettled, e.missed, e.wrong));
    }

private:
    output_file out_;
    const test* what_ = nullptr;
};

// JSON lines, schema 1: "run", "result" per row, "end". A key carries the unit of its value.
class json_lines final : public p2p_report {
public:
    explicit json_lines(const std::string& file) : out_(file) {}

    void begin(const run_about& a) override {
        what_ = a.what;
        const p2p_options& o = *a.opt;
        ordered options = ordered::object();
        for (const auto& [name, value] : in_force(o)) options[name] = value;
        options["device"] = o.device;
        options["precision_percent"] = o.effort.precision_percent;
        options["bound_s"] = o.effort.bound_s;
        options["timeout_s"] = o.timeout_s;
        options["min_gbps"] = positive(o.output.min_gbps);
        options["min_window_gbps"] = positive(o.min_window_gbps);
        options["max_us"] = positive(o.output.max_us);
        write({{"schema", schema},
               {"record", "run"},
               {"program", what_->program},
               {"library_version", a.machine.library},
               {"time_utc", a.machine.time_utc},
               {"host", a.machine.host},
               {"kernel", a.machine.kernel},
               {"cpu", a.machine.cpu},
               {"cores", a.machine.cores},
               {"clock_read_ns", a.machine.clock_read_ns},
               {"core_round_trip_ns", known(a.probe_before_ns)},
               {"cpu_pressure_percent", known(a.pressure_before_percent)},
               {"peer", a.peer},
               {"medium", a.medium},
               {"options", options}});
    }

    void add(const result_row& r) override {
        const sample& h = r.here;
        write({{"schema", schema},
               {"record", "result"},
               {"test", what_->name},
               {"bytes", r.bytes},
               {"iterations", h.iterations},
               {"windows", h.windows},
               {"seconds", h.seconds},
               {"gbps", what_->latency ? ordered(nullptr) : ordered(r.gbps())},
               {"min_window_gbps", what_->latency ? ordered(nullptr) : ordered(h.min_window_gbps)},
               {"server_gbps", r.there ? ordered(r.there->gbps) : ordered(nullptr)},
               {"messages_per_s", r.messages_per_s()},
               {"avg_us", h.avg_us},
               {"min_us", h.min_us},
               {"p50_us", h.p50_us},
               {"p99_us", h.p99_us},
               {"p999_us", h.p999_us},
               {"max_us", h.max_us},
               {"half_width_percent", known(h.half_width_percent)},
               {"settled", h.settled},
               {"wrong_bytes", r.verified ? ordered(r.wrong_bytes) : ordered(nullptr)},
               {"threshold_missed", r.missed}});
    }

    void end(const run_end& e) override {
        write({{"schema", schema},
               {"record", "end"},
               {"rows", e.rows},
               {"unsettled", e.unsettled},
               {"thresholds_missed", e.missed},
               {"wrong_bytes", e.wrong},
               {"exit_status", e.exit_status}});
    }

private:
    static ordered known(double x) {
        return x >= 0 && std::isfinite(x) ? ordered(x) : ordered(nullptr);
    }
    static ordered positive(double x) { return x > 0 ? ordered(x) : ordered(nullptr); }
    void write(const ordered& line) {
        out_.write(line.dump(-1, ' ', false, ordered::error_handler_t::replace) + "\n");
    }

    output_file out_;
    const test* what_ = nullptr;
};

class csv final : public p2p_report {
public:
    explicit csv(const std::string& file) : out_(file) {}

    void begin(const run_about& a) override {
        about_ = fmt::format("{},{},{}", a.what->name, a.machine.host, a.medium);
        latency_ = a.what->latency;
        out_.write(
            "test,host,medium,bytes,iterations,gbps,min_window_gbps,messages_per_s,avg_us,"
            "min_us,p50_us,p99_us,p999_us,max_us,half_width_percent,settled,wrong_bytes,"
            "threshold_missed\n");
    }
    void add(const result_row& r) override {
        const sample& h = r.here;
        const std::string bandwidth =
            latency_ ? "," : fmt::format("{:.6f},{:.6f}", r.gbps(), h.min_window_gbps);
        out_.write(fmt::format(
            "{},{},{},{},{:.2f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},"
            "{:.3f},{},{},{}\n",
            about_, r.bytes, h.iterations, bandwidth, r.messages_per_s(), h.avg_us, h.min_us,
            h.p50_us, h.p99_us, h.p999_us, h.max_us, h.half_width_percent, h.settled ? 1 : 0,
            r.verified ? fmt::format("{}", r.wrong_bytes) : "", r.missed ? 1 : 0));
    }
    void end(const run_end&) override {}

private:
    output_file out_;
    std::string about_;
    bool latency_ = false;
};

}  // namespace

std::vector<std::unique_ptr<p2p_report>> make_p2p_reports(const output_options& o) {
    std::vector<std::unique_ptr<p2p_report>> all;
    if (o.json != "-" && o.csv != "-") all.push_back(std::make_unique<table>());
    if (!o.json.empty()) all.push_back(std::make_unique<json_lines>(o.json));
    if (!o.csv.empty()) all.push_back(std::make_unique<csv>(o.csv));
    return all;
}

}  // namespace ef::perf::p2p
