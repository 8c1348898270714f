// CSV: one header line whose names carry the units, one line per row; facts of the run that a row
// needs to be read alone (ranks, host) are columns.
#include "perftests/common/names.hpp"
#include "perftests/common/report.hpp"

#include <fmt/core.h>

namespace ef::perf {
namespace {

class csv_report final : public report {
public:
    explicit csv_report(const std::string& file) : out_(file) {}

    void begin(const run_facts& f) override {
        facts_ = f;
        out_.write(
            "collective,ranks,host,bytes,count_elements,type,op,place,memory,iterations,avg_us,"
            "p50_us,p99_us,min_us,max_us,half_width_percent,settled,algbw_GBps,busbw_GBps,"
            "slowest_rank,plan,medium,rounds,chunk_bytes,predicted_us,limit_us,bytes_sent,"
            "bytes_read,bytes_written,wrong_elements,threshold_missed\n");
    }

    void add(const row& r) override {
        const measurement& t = r.time;
        std::string line = fmt::format(
            "{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.3f},{},",
            facts_.what->name, facts_.nranks, facts_.machine.host, r.call.bytes, r.call.count,
            type_name(r.type), facts_.what->has_op ? op_name(r.op) : "", r.in_place ? "in" : "out",
            r.shared ? "shared" : "malloc", t.iterations, t.avg_us, t.p50_us, t.p99_us, t.min_us,
            t.max_us, t.half_width_percent, t.settled ? 1 : 0);
        line += fmt::format("{:.6f},{:.6f},{},", r.algbw, r.busbw, t.slowest_rank);
        if (r.planned)
            line += fmt::format("{},{},{},{},{:.4f},{:.4f},{},{},{},", r.algorithm, r.medium,
                                r.rounds, r.chunk_bytes, r.predicted_us, r.limit_us, r.bytes_sent,
                                r.bytes_read, r.bytes_written);
        else line += ",,,,,,,,,";
        line += r.checked ? fmt::format("{}", r.wrong) : "";
        line += fmt::format(",{}\n", r.missed ? 1 : 0);
        out_.write(line);
    }

    void end(const run_end&) override {}

private:
    output_file out_;
    run_facts facts_;
};

}  // namespace

std::unique_ptr<report> make_csv_report(const std::string& file) {
    return std::make_unique<csv_report>(file);
}

}  // namespace ef::perf
