// ef_blame: reads the flight records that the ranks of a job left behind and names the rank that
// the others were waiting for.
#include "perftests/common/exit_code.hpp"
#include "tools/blame/analysis.hpp"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace {

using namespace ef;

std::string slurp(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw blame::bad_record(fmt::format("{}: {}", file, strerror(errno)));
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (in.bad() || (text.empty() && !in.eof()))
        throw blame::bad_record(fmt::format("{}: cannot be read", file));
    return text;
}

void print_text(const blame::verdict& v) {
    fmt::print("communicator {}: {} of {} ranks left a record\n", v.communicator, v.recorded.size(),
               v.peers.size());
    if (!v.hang) {
        fmt::print("  no operation was pending\n");
        return;
    }
    if (v.culprits.empty())
        fmt::print("  operations were pending, but the records name no culprit\n");
    for (const blame::culprit& c : v.culprits) fmt::print("  {}\n", c.text);
    if (!v.chain.empty()) {
        fmt::print("  chain: rank {}\n", fmt::join(v.chain, " -> rank "));
        for (size_t i = 0; i < v.links.size(); ++i)
            fmt::print("    rank {} in {}\n", v.chain[i], v.links[i]);
    }
}

nlohmann::json as_json(const blame::verdict& v) {
    nlohmann::json culprits = nlohmann::json::array();
    for (const blame::culprit& c : v.culprits) {
        nlohmann::json who = nlohmann::json::array();
        for (int64_t r : c.ranks)
            who.push_back(
                {{"rank", r}, {"host", v.peers[size_t(r)].host}, {"pid", v.peers[size_t(r)].pid}});
        culprits.push_back({{"kind", c.kind}, {"ranks", who}, {"text", c.text}});
    }
    return {{"communicator", v.communicator}, {"nranks", v.peers.size()},
            {"recorded", v.recorded},         {"pending", v.hang},
            {"culprits", culprits},           {"chain", v.chain}};
}

int run(const std::vector<std::string>& files, bool json) {
    std::vector<blame::record> records;
    for (const std::string& f : files) records.push_back(blame::read_record(f, slurp(f)));
    const std::vector<blame::verdict> all = blame::analyse(records);
    bool named = false;
    nlohmann::json out = nlohmann::json::array();
    for (const blame::verdict& v : all) {
        named |= !v.culprits.empty();
        if (json) out.push_back(as_json(v));
        else print_text(v);
    }
    if (json)
        fmt::print("{}\n", nlohmann::json{{"eflops_blame", 1}, {"communicators", out}}.dump(
                               2, ' ', false, nlohmann::json::error_handler_t::replace));
    return named ? perf::exit_good : perf::exit_missed;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app(
        "Read flight records, written by ranks whose operation failed (EFLOPS_FLIGHT_DIR), "
        "and name the rank that the others were waiting for.",
        "ef_blame");
    std::vector<std::string> files;
    bool json = false;
    app.add_option("files", files, "flight records of one job, from all ranks that left one")
        ->required();
    app.add_flag("--json", json, "print JSON instead of text");
    app.set_version_flag("-V,--version", fmt::format("ef_blame {}", ef_version()));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version: to stdout
        fmt::print(stderr, "ef_blame: {}\n", e.what());
        return perf::exit_usage;
    }
    try {
        return run(files, json);
    } catch (const std::exception& e) {
        fmt::print(stderr, "ef_blame: {}\n", e.what());
        return perf::exit_failed;
    }
}
