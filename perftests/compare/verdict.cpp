#include "perftests/compare/verdict.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

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

std::string size_text(uint64_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
    if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
    return fmt::format("{}", bytes);
}

}  // namespace

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    const size_t n = v.size();
    return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// The highest ratio of our time to the best peer's that we accept; 0: no bar.
double verdict::bar(const std::string& ours, uint64_t bytes) const {
    if (nranks > 4) return 1.0;  // more ranks than the cores of a small machine
    if (medium != "shm") return 1.0;
    if (ours == "eflops-shared")
        return bytes >= 256 << 10 ? 0.5 : bytes == 8 && nranks == 2 ? 1.0 : 0;
    return bytes >= 1 << 20 ? 0.7 : 1.0;
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
    print_limits();
}

void verdict::print_table() const {
    std::vector<std::string> names;
    for (const row& r : rows_)
        for (const row::entry& e : r.entries)
            if (std::find(names.begin(), names.end(), e.name) == names.end())
                names.push_back(e.name);
    fmt::print("\n{} ranks, {}: float32 sum, us, medians; ratio = ours / best peer (bar)\n{:>6}",
               nranks, medium, "bytes");
    for (const std::string& n : names) fmt::print(" {:>14}", n);
    fmt::print("  ratios\n");
    for (const row& r : rows_) {
        fmt::print("{:>6}", size_text(r.bytes));
        for (const std::string& n : names) {
            const row::entry* e = find(r, n);
            if (e) fmt::print(" {:>13.2f}{}", median(e->us), e->wrong ? '!' : ' ');
            else fmt::print(" {:>14}", "-");
        }
        const row::entry* peer = best_peer(r);
        for (const row::entry& e : r.entries) {
            if (!is_ours(e.name) || !peer) continue;
            const double ratio = median(e.us) / median(peer->us), at_most = bar(e.name, r.bytes);
            fmt::print("  {:.2f}", ratio);
            if (at_most > 0)
                fmt::print(" ({:.1f} {})", at_most, ratio <= at_most ? "met" : "MISSED");
        }
        fmt::print("\n");
    }
}

void verdict::print_spread() const {
    fmt::print("spread (least .. most over the turns, us) of ours and of the best peer:\n");
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

void verdict::print_limits() const {
    for (const row& r : rows_) {
        const row::entry* copy = find(r, "limit-copy");
        if (!copy) continue;
        const double copy_us = median(copy->us);
        fmt::print(
            "{:>6} limit: every rank copies its vector in {:.2f} us ({:.1f} GB/s read and as much "
            "written)",
            size_text(r.bytes), copy_us, double(r.bytes) / copy_us / 1e3);
        for (const row::entry& e : r.entries) {
            if (!is_ours(e.name)) continue;
            fmt::print("; {}: {:.0f} %", e.name, 100 * copy_us / median(e.us));
            if (e.read) fmt::print(" (reads {}, writes {} bytes per rank)", e.read, e.written);
        }
        fmt::print("\n");
    }
}

void verdict::append_to(const std::string& file) const {
    FILE* f = fopen(file.c_str(), "a");
    if (!f) return perror(file.c_str());
    for (const row& r : rows_) {
        const row::entry* peer = best_peer(r);
        for (const row::entry& e : r.entries) {
            const double at_most = is_ours(e.name) ? bar(e.name, r.bytes) : 0;
            if (!peer || at_most == 0) continue;
            const double ratio = median(e.us) / median(peer->us);
            fmt::print(f, "{} {} {} {} {} {:.2f} {:.1f} {}\n", ratio <= at_most ? "met" : "MISSED",
                       nranks, medium, size_text(r.bytes), e.name, ratio, at_most, peer->name);
        }
    }
    fclose(f);
}

}  // namespace compare
