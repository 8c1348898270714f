// What a point-to-point run says: a table for people, JSON lines and CSV for programs.
#pragma once

#include "perftests/common/facts.hpp"
#include "perftests/common/report.hpp"
#include "perftests/p2p/traffic.hpp"

namespace ef::perf::p2p {

struct run_about {
    const test* what = nullptr;
    const p2p_options* opt = nullptr;
    machine_facts machine;
    std::string peer;    // "host7 (pid 4711)"
    std::string medium;  // "tcp:eth0"
    int core_a = -1, core_b = -1;
    double probe_before_ns = -1;
    double pressure_before_percent = -1;
};

struct result_row {
    uint64_t bytes = 0;
    sample here;
    std::optional<sample> there;  // the server's stream, bidirectional
    bool verified = false;
    uint64_t wrong_bytes = 0;
    bool missed = false;

    double gbps() const noexcept { return here.gbps + (there ? there->gbps : 0); }
    double messages_per_s() const noexcept {
        return here.messages_per_s + (there ? there->messages_per_s : 0);
    }
};

class p2p_report {
public:
    virtual ~p2p_report() = default;
    virtual void begin(const run_about& a) = 0;
    virtual void add(const result_row& r) = 0;
    virtual void end(const run_end& e) = 0;
};

std::vector<std::unique_ptr<p2p_report>> make_p2p_reports(const output_options& o);

}  // namespace ef::perf::p2p
