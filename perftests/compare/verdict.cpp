#include "perftests/compare/verdict.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace compare {
namespace {

bool is_ours(const std::string& name) { return name.starts_with("eflops"); }
bool is_limit(const std::string& name) { return name.starts_with("limit"); }

const row::entry* find(const row& r, const std::string& name) {
    for (const row::entry& e : r.entries)
        if (e.name == name) return &e;
    return nullptr;
}

const row::entry* best_peer(const row& r) {
    const row::entry* best = nullptr;
    for (const row::entry& e : r.entries)
        if (!is_ours(e.name) && !is_limit(e.name) && (!best || median(e.us) < median(best->us)))
            best = &e;
    return best;
}

std::vector<std::string> names_of(const std::vector<row>& rows) {
    std::vector<std::string> names;
    for (const row& r : rows)
        for (const row::entry& e : r.entries)
            if (std::find(names.begin(), names.end(), e.name) == names.end())
                names.push_back(e.name);
    return names;
}

// Beside a copy of the whole vector by every rank, which reads and writes each byte once: how many
// bytes per second an operation moves, in percent of that.
double percent_of_copy(const row::entry& e, uint64_t bytes, double copy_us) {
    return 100 * double(e.read + e.written) / double(2 * bytes) * copy_us / median(e.us);
}

}  // namespace

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    const size_t n = v.size();
    return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

std::string size_text(uint64_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
    if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
    return fmt::format("{}", bytes);
}

// The highest ratio of our time to the best peer's that we accept; 0: no bar.
double verdict::bar(const std::string& ours, uint64_t bytes) const {
    if (medium != "shm") return 1.0;
    if (ours == "eflops-malloc") return bytes >= 1 << 20 ? 0.7 : 1.0;
    if (bytes >= 256 << 10) return 0.5;
    return nranks >= 8 || (bytes == 8 && nranks == 2) ? 1.0 : 0;
}

bool verdict::wrong() const {
    for (const row& r : rows_)
        for (const row::entry& e : r.entries)
            if (e.wrong) return true;
    return false;
}

void verdict::print() const {
    print_table();
    print_spread();
    if (medium == "shm") print_limits();
    fmt::print("cache line between two cores and back: {:.0f} ns before, {:.0f} ns after\n",
               probe_before_ns, probe_after_ns);
}

void verdict::print_table() const {
    const std::vector<std::string> names = names_of(rows_);
    fmt::print("\n{} ranks, {}: float32 sum, out of place, us, medians of {}\n{:>6}", nranks,
               medium, turns, "bytes");
    for (const std::string& n : names) fmt::print(" {:>14}", n);
    fmt::print(" {:>14}", "best peer");
    for (const std::string& n : names)
        if (is_ours(n)) fmt::print("  {:>20}", n.substr(7) + "/peer (bar)");
    fmt::print("\n");
    for (const row& r : rows_) {
        fmt::print("{:>6}", size_text(r.bytes));
        for (const std::string& n : names) {
            const row::entry* e = find(r, n);
            if (e) fmt::print(" {:>13.2f}{}", median(e->us), e->wrong ? '!' : ' ');
            else fmt::print(" {:>14}", "-");
        }
        const row::entry* peer = best_peer(r);
        fmt::print(" {:>14}", peer ? peer->name : "-");
        for (const std::string& n : names) {
            const row::entry* e = find(r, n);
            if (!is_ours(n)) continue;
            std::string cell = "-";
            if (e && peer) {
                const double ratio = median(e->us) / median(peer->us), at_most = bar(n, r.bytes);
                cell = fmt::format("{:.3f}", ratio);
                if (at_most > 0)
                    cell +=
                        fmt::format(" ({:.1f} {})", at_most, ratio <= at_most ? "met" : "MISSED");
            }
            fmt::print("  {:>20}", cell);
        }
        fmt::print("\n");
    }
    if (wrong()) fmt::print("!: WRONG SUMS\n");
}

void verdict::print_spread() const {
    fmt::print(
        "spread (least .. most over the turns, us) of ours, with its plan, and the best peer\n");
    for (const row& r : rows_) {
        fmt::print("{:>6}", size_text(r.bytes));
        const row::entry* peer = best_peer(r);
        for (const row::entry& e : r.entries) {
            if (!is_ours(e.name) && &e != peer) continue;
            const auto [low, high] = std::minmax_element(e.us.begin(), e.us.end());
            fmt::print("  {}{}{} {:.2f} .. {:.2f}", e.name, e.plan.empty() ? "" : ":", e.plan, *low,
                       *high);
        }
        fmt::print("\n");
    }
}

// An allreduce has to read and to write each byte of a vector once per rank. Small vectors are
// left out of the copy: there the meeting of the ranks is all that takes time.
void verdict::print_limits() const {
    fmt::print(
        "limits: every rank copies its vector (GB/s read, and as much written); the ranks sum "
        "over\n"
        "  buffers that all share; ours in % of these, and the vectors it reads and writes per "
        "rank\n");
    for (const row& r : rows_) {
        const row::entry *copy = find(r, "limit-copy"), *shared = find(r, "limit-shared");
        if (!copy || !shared) continue;
        const double copy_us = median(copy->us), shared_us = median(shared->us);
        const bool large = r.bytes >= 256 << 10;
        fmt::print("{:>6}", size_text(r.bytes));
        if (large)
            fmt::print("  copy {:.2f} us ({:.1f} GB/s)", copy_us, double(r.bytes) / copy_us / 1e3);
        fmt::print("  shared sum {:.2f} us", shared_us);
        for (const row::entry& e : r.entries) {
            if (!is_ours(e.name)) continue;
            fmt::print("; {}: {:.0f} % of the shared sum", e.name, 100 * shared_us / median(e.us));
            if (!e.read) continue;
            const double percent = percent_of_copy(e, r.bytes, copy_us);
            if (large) fmt::print(", {:.0f} % of the copy's GB/s", percent);
            fmt::print(", reads {:.2f} writes {:.2f}", double(e.read) / double(r.bytes),
                       double(e.written) / double(r.bytes));
            if (nranks == 2 && r.bytes == 64 << 20)
                fmt::print(" (goal 80 %: {})", percent >= 80 ? "met" : "MISSED");
        }
        fmt::print("\n");
    }
}

void verdict::append_to(const std::string& file) const {
    FILE* f = fopen(file.c_str(), "a");
    if (!f) return perror(file.c_str());
    for (const auto& [name, why] : left_out)
        fmt::print(f, "out {} {} {} {}\n", nranks, medium, name, why);
    for (const row& r : rows_) {
        const row::entry* peer = best_peer(r);
        for (const row::entry& e : r.entries) {
            if (is_ours(e.name) || is_limit(e.name))
                fmt::print(f, "time {} {} {} {} {:.3f}\n", nranks, medium, size_text(r.bytes),
                           e.name, median(e.us));
            const double at_most = is_ours(e.name) ? bar(e.name, r.bytes) : 0;
            if (!peer || at_most == 0) continue;
            const double ratio = median(e.us) / median(peer->us);
            fmt::print(f, "{} {} {} {} {} {:.3f} {:.1f} {}\n", ratio <= at_most ? "met" : "MISSED",
                       nranks, medium, size_text(r.bytes), e.name, ratio, at_most, peer->name);
        }
        for (const auto& [name, why] : left_out)
            if (is_ours(name) && !find(r, name) && bar(name, r.bytes) > 0)
                fmt::print(f, "MISSED {} {} {} {} failed {:.1f} {}\n", nranks, medium,
                           size_text(r.bytes), name, bar(name, r.bytes), peer ? peer->name : "-");
    }
    fclose(f);
}

void verdict::append_json_to(const std::string& file,
                             const ef::perf::machine_facts& machine) const {
    FILE* f = fopen(file.c_str(), "a");
    if (!f) return perror(file.c_str());
    for (const row& r : rows_) {
        const row::entry* peer = best_peer(r);
        for (const row::entry& e : r.entries) {
            const auto [low, high] = std::minmax_element(e.us.begin(), e.us.end());
            nlohmann::ordered_json j = {{"ranks", nranks},          {"medium", medium},
                                        {"bytes", r.bytes},         {"contender", e.name},
                                        {"type", "float32"},        {"op", "sum"},
                                        {"in_place", false},        {"median_us", median(e.us)},
                                        {"min_us", *low},           {"max_us", *high},
                                        {"turns", e.us.size()},     {"iterations", e.iterations},
                                        {"wrong_elements", e.wrong}};
            if (!e.plan.empty()) {
                j["plan"] = e.plan;
                j["read_bytes"] = e.read;
                j["written_bytes"] = e.written;
            }
            if (is_ours(e.name) && peer) {
                const double ratio = median(e.us) / median(peer->us),
                             at_most = bar(e.name, r.bytes);
                j["best_peer"] = peer->name;
                j["ratio"] = ratio;
                if (at_most > 0) j["bar"] = at_most, j["met"] = ratio <= at_most;
            }
            const auto& m = machine;
            j["time_utc"] = m.time_utc;
            j["kernel"] = m.kernel;
            j["cpu"] = m.cpu;
            j["cores"] = m.cores.size();
            j["library"] = m.library;
            j["core_round_trip_before_ns"] = probe_before_ns;
            j["core_round_trip_after_ns"] = probe_after_ns;
            fmt::print(f, "{}\n", j.dump());
        }
    }
    fclose(f);
}

}  // namespace compare
