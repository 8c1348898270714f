// The table for people: lines of facts behind '#', a header with units, one line per row. Widths
// hold up to 999 GiB and an hour, so that columns stay columns.
#include "perftests/common/names.hpp"
#include "perftests/common/report.hpp"
#include "perftests/common/sizes.hpp"

#include <fmt/core.h>

#include <map>

namespace ef::perf {
namespace {

/// Four significant digits, no exponent: 0.5312, 12.47, 1834, 2201345.
std::string number(double x) {
    const int digits = x >= 1000 ? 0 : x >= 100 ? 1 : x >= 10 ? 2 : x >= 1 ? 3 : 4;
    return fmt::format("{:.{}f}", x, digits);
}

/// "shm" for all but oneself, or "3 shm, 4 tcp:eth0".
std::string media(const run_facts& f) {
    std::map<std::string, int> count;
    for (const peer_fact& p : f.peers)
        if (p.medium != "self") ++count[p.medium];
    std::string text;
    for (const auto& [medium, n] : count)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, medium);
    return text.empty() ? "none" : text;
}

std::string hosts(const run_facts& f) {
    std::map<std::string, int> count;
    for (const peer_fact& p : f.peers) ++count[p.host];
    if (count.size() > 8) return fmt::format("{} hosts", count.size());
    std::string text;
    for (const auto& [host, n] : count)
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host, n);
    return text;
}

std::string probe(double ns, double pressure) {
    std::string text = ns >= 0 ? fmt::format("{:.0f} ns", ns) : std::string("not measured");
    if (pressure >= 0) text += fmt::format("; tasks waited for a core {:.1f} % of 10 s", pressure);
    return text;
}

class table_report final : public report {
public:
    table_report() : out_("-") {}

    void begin(const run_facts& f) override {
        what_ = f.what;
        bytes_ = f.opt.output.explain && f.what->planned.has_value();
        const machine_facts& m = f.machine;
        std::string text = fmt::format("# {} {}: {} ranks on {}; rank 0 reaches the others by {}\n",
                                       what_->program, m.library, f.nranks, hosts(f), media(f));
        text += fmt::format("# {}, {}, {} cores usable, {}\n", m.cpu, m.kernel, m.cores.size(),
                            m.time_utc);
        text += f.core_b >= 0
                    ? fmt::format("# core {} to core {} and back, before: {}\n", f.core_a, f.core_b,
                                  probe(f.probe_before_ns, f.pressure_before_percent))
                    : std::string("# one core: no core to core time\n");
        text += fmt::format(
            "# avg p50 p99 min: the largest over ranks of each rank's; '~' behind avg: not known "
            "to +-{} %\n",
            f.opt.effort.precision_percent);
        text += fmt::format("#{:>11} {:>11} {:>8} {:>4} {:>5} {:>6} {:>10}  {:>9} {:>9} {:>9} ",
                            "bytes", "count", "type", "op", "place", "memory", "avg", "p50", "p99",
                            "min");
        text += fmt::format("{:>8} {:>8} {:>7} {:>20} {:>10} {:>6} {:>7} {:>6}", "algbw", "busbw",
                            "slowest", "plan", "predicted", "ratio", "limit", "wrong");
        text += bytes_ ? fmt::format(" {:>12} {:>12}\n", "read", "written") : "\n";
        text += fmt::format("#{:>11} {:>11} {:>8} {:>4} {:>5} {:>6} {:>10}  {:>9} {:>9} {:>9} ",
                            "(B)", "(elements)", "", "", "", "", "(us)", "(us)", "(us)", "(us)");
        text += fmt::format("{:>8} {:>8} {:>7} {:>20} {:>10} {:>6} {:>7} {:>6}", "(GB/s)", "(GB/s)",
                            "(rank)", "", "(us)", "", "(%)", "(el.)");
        text += bytes_ ? fmt::format(" {:>12} {:>12}\n", "(B/rank 0)", "(B/rank 0)") : "\n";
        out_.write(text);
    }

    void add(const row& r) override {
        std::string text;
        for (size_t from = 0; from < r.explanation.size();) {
            const size_t to = std::min(r.explanation.find('\n', from), r.explanation.size());
            text += "#   " + r.explanation.substr(from, to - from) + "\n";
            from = to + 1;
        }
        const measurement& t = r.time;
        text += fmt::format(" {:>11} {:>11} {:>8} {:>4} {:>5} {:>6} {:>10}{} {:>9} {:>9} {:>9} ",
                            r.call.bytes, r.call.count, type_name(r.type),
                            what_->has_op ? op_name(r.op) : "-",
                            what_->in_place ? (r.in_place ? "in" : "out") : "-",
                            !what_->has_sizes ? "-"
                            : r.shared        ? "shared"
                                              : "malloc",
                            number(t.avg_us), t.settled ? ' ' : '~', number(t.p50_us),
                            number(t.p99_us), number(t.min_us));
        const bool moves = r.call.bytes > 0;
        text += fmt::format("{:>8} {:>8} {:>7} ", moves ? number(r.algbw) : "-",
                            moves ? number(r.busbw) : "-", t.slowest_rank);
        const bool predicted = r.planned && r.predicted_us > 0;
        text += fmt::format(
            "{:>20} {:>10} {:>6} {:>7} {:>6}", r.planned ? r.algorithm : "-",
            predicted ? number(r.predicted_us) : "-",
            predicted ? fmt::format("{:.2f}", t.avg_us / r.predicted_us) : "-",
            r.planned && r.limit_us > 0 ? fmt::format("{:.1f}", 100 * r.limit_us / t.avg_us) : "-",
            r.checked ? fmt::format("{}", r.wrong) : "-");
        if (bytes_) text += fmt::format(" {:>12} {:>12}", r.bytes_read, r.bytes_written);
        text += r.missed ? "  threshold missed\n" : "\n";
        out_.write(text);
    }

    void end(const run_end& e) override {
        std::string text;
        if (e.probe_after_ns >= 0)
            text = fmt::format("# core to core, after: {}\n",
                               probe(e.probe_after_ns, e.pressure_after_percent));
        text += fmt::format("# {} rows: {} unsettled, {} missed a threshold, {} wrong elements\n",
                            e.rows, e.unsettled, e.missed, e.wrong);
        out_.write(text);
    }

private:
    output_file out_;
    const collective* what_ = nullptr;
    bool bytes_ = false;
};

}  // namespace

std::unique_ptr<report> make_table_report() { return std::make_unique<table_report>(); }

}  // namespace ef::perf
