// What a run says about itself and its rows, as a table for people, JSON lines and CSV for
// programs. A row is complete when it reaches a report: reports only write.
#pragma once

#include "perftests/common/facts.hpp"
#include "perftests/common/measure.hpp"
#include "perftests/common/options.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ef::perf {

/// A rank as ef_comm_peer describes it, seen from rank 0.
struct peer_fact {
    int pid = 0;
    std::string host;
    std::string medium;
};

struct run_facts {
    const collective* what = nullptr;
    options opt;
    int nranks = 1;
    machine_facts machine;
    std::vector<peer_fact> peers;
    int core_a = -1, core_b = -1;  // that the probe used; negative: one core only
    double probe_before_ns = -1;
    double pressure_before_percent = -1;
};

struct row {
    ef_type_t type = EF_FLOAT32;
    ef_op_t op = EF_SUM;
    bool in_place = false;
    bool shared = false;
    shape call;
    measurement time;
    bool planned = false;  // the ef_plan_info fields below hold
    std::string algorithm;
    std::string medium;
    uint32_t rounds = 0;
    uint64_t chunk_bytes = 0;
    double predicted_us = 0;
    double limit_us = 0;
    uint64_t bytes_sent = 0, bytes_read = 0, bytes_written = 0;  // of rank 0
    double algbw = 0;                                            // GB/s, 10^9 byte/s
    double busbw = 0;
    bool checked = false;
    uint64_t wrong = 0;  // elements, all ranks, all checked calls
    bool missed = false;
    std::string explanation;  // with --explain
};

struct run_end {
    double probe_after_ns = -1;
    double pressure_after_percent = -1;
    size_t rows = 0, unsettled = 0, missed = 0;
    uint64_t wrong = 0;
    int exit_status = 0;
};

class report {
public:
    virtual ~report() = default;
    virtual void begin(const run_facts& f) = 0;
    virtual void add(const row& r) = 0;
    virtual void end(const run_end& e) = 0;
};

/// The reports that `f.opt.output` asks for. Throws `failure` if a file cannot be opened.
std::vector<std::unique_ptr<report>> make_reports(const output_options& o);

/// For report_json.cpp, report_csv.cpp: standard output for "-", else the file; closed with it.
class output_file {
public:
    explicit output_file(const std::string& name);
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;
    ~output_file();
    /// Writes and flushes; throws `failure` when the disk is full or the reader is gone.
    void write(const std::string& text);

private:
    std::string name_;
    FILE* file_;
};

std::unique_ptr<report> make_table_report();
std::unique_ptr<report> make_json_report(const std::string& file);
std::unique_ptr<report> make_csv_report(const std::string& file);

}  // namespace ef::perf
