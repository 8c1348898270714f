// Options of the point-to-point programs: defaults, what the ends tell each other, perftest's
// names, and that ef_write_bw(1) has them all. Run from the top of the tree.
#include "perftests/p2p/options.hpp"
#include "perftests/p2p/perftest_options.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace ef::perf::p2p {
namespace {

struct parsed {
    std::optional<int> end;
    p2p_options o;
    std::string out, err;
};

parsed parse(kind k, std::vector<std::string> words) {
    words.insert(words.begin(), "program");
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    parsed p;
    p.end = parse_p2p(int(argv.size()), argv.data(), find_test(k), p.o);
    p.out = testing::internal::GetCapturedStdout();
    p.err = testing::internal::GetCapturedStderr();
    return p;
}

TEST(P2pOptions, TakesTheLettersOfPerftest) {
    const parsed p = parse(kind::write_bw,
                           {"-d", "mlx5_0", "-s", "4096", "-n", "1000", "-q", "2", "-t", "64", "-b",
                            "-p", "1234", "-x", "3", "-F", "-R", "--report_gbits", "host7"});
    ASSERT_FALSE(p.end) << p.err;
    EXPECT_EQ(p.o.device, "verbs:mlx5_0");
    EXPECT_EQ(p.o.traffic.sizes, std::vector<uint64_t>{4096});
    EXPECT_EQ(p.o.effort.iterations, 1000u);
    EXPECT_EQ(p.o.traffic.qps, 2u);
    EXPECT_EQ(p.o.traffic.depth, 64u);
    EXPECT_TRUE(p.o.traffic.bidirectional);
    EXPECT_EQ(p.o.port, 1234u);
    EXPECT_EQ(p.o.gid_index, 3);
    EXPECT_TRUE(p.o.rdma_cm);
    EXPECT_EQ(p.o.host, "host7");
    EXPECT_TRUE(p.o.client());
}

TEST(P2pOptions, SweepsTheSizesOfPerftestWithAll) {
    const parsed p = parse(kind::read_bw, {"-a"});
    ASSERT_FALSE(p.end) << p.err;
    EXPECT_EQ(p.o.traffic.sizes.size(), 23u);
    EXPECT_EQ(p.o.traffic.sizes.back(), 8u << 20);
    EXPECT_FALSE(p.o.client());
}

TEST(P2pOptions, RefusesWhatContradictsItself) {
    for (const auto& words : std::vector<std::vector<std::string>>{{"-n", "5", "-D", "1"},
                                                                   {"-a", "-s", "8"},
                                                                   {"-l", "64", "-t", "32"},
                                                                   {"-Q", "64", "-t", "32"},
                                                                   {"--self", "host"},
                                                                   {"--serve", "host"},
                                                                   {"-t", "0"},
                                                                   {"-s", "2G"},
                                                                   {"-p", "70000"},
                                                                   {"--json", "--csv"}}) {
        const parsed p = parse(kind::write_bw, words);
        EXPECT_EQ(p.end, 2) << words[0];
        EXPECT_NE(p.err, "");
        EXPECT_EQ(p.out, "");
    }
    EXPECT_EQ(parse(kind::write_lat, {"-s", "0"}).end, 2);
    EXPECT_EQ(parse(kind::write_lat, {"-b"}).end, 2);
}

TEST(P2pOptions, SaysWhatToTypeInsteadOfAnOptionOfPerftest) {
    EXPECT_NE(parse(kind::write_bw, {"-w", "90", "host"}).err.find("--min-gbps"),
              std::string::npos);
    EXPECT_NE(parse(kind::write_bw, {"--out_json"}).err.find("--json"), std::string::npos);
    EXPECT_NE(parse(kind::write_bw, {"--use_cuda=0"}).err.find("refused"), std::string::npos);
    EXPECT_EQ(parse(kind::write_bw, {"--use_cuda=0"}).end, 2);
}

TEST(P2pOptions, ServerTakesOverWhatTheClientSays) {
    const parsed client = parse(kind::send_bw, {"-s", "8,64K", "-q", "3", "-t", "32", "-l", "4",
                                                "-b", "--verify", "-n", "77", "host"});
    ASSERT_FALSE(client.end) << client.err;
    p2p_options server;
    EXPECT_EQ(adopt(in_force(client.o), server), "");
    EXPECT_EQ(in_force(server), in_force(client.o));
}

TEST(P2pOptions, ServerRefusesOptionsThatAreMissingOrAbsurd) {
    const auto good = in_force(parse(kind::send_bw, {"host"}).o);
    for (const auto& [name, value] : good) {
        if (name == "duration") continue;  // the client's alone
        auto bad = good;
        bad.erase(name);
        p2p_options o;
        EXPECT_NE(adopt(bad, o), "") << name;
    }
    for (const auto& [name, value] : std::map<std::string, std::string>{
             {"size", "2G"}, {"size", "-1"}, {"qp", "1000000"}, {"tx-depth", "0"}, {"qp", "x"}}) {
        auto bad = good;
        bad[name] = value;
        p2p_options o;
        EXPECT_NE(adopt(bad, o), "") << name << " " << value;
    }
}

TEST(P2pOptions, NamesBothValuesOfAConflictAndOnlyOfWhatTheServerWasGiven) {
    const parsed client = parse(kind::write_bw, {"-s", "65536", "-q", "2", "host"});
    const parsed server = parse(kind::write_bw, {"-s", "4096"});
    const std::string text = conflicts(in_force(client.o), server.o);
    EXPECT_NE(text.find("--size: 65536 on the client, 4096 on the server"), std::string::npos)
        << text;
    EXPECT_EQ(text.find("--qp"), std::string::npos) << text;
    EXPECT_EQ(conflicts(in_force(client.o), parse(kind::write_bw, {}).o), "");
    EXPECT_EQ(conflicts(in_force(client.o), parse(kind::write_bw, {"-s", "64K"}).o), "");
}

std::string page() {
    std::ifstream in("man/ef_write_bw.1");
    EXPECT_TRUE(in) << "man/ef_write_bw.1";
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

TEST(P2pManPage, HasEveryOptionOfPerftestWithItsVerdictAndWords) {
    const std::string text = page();
    std::set<std::string> names;
    for (const perftest_option& p : perftest_options()) {
        EXPECT_TRUE(names.insert(p.name).second) << p.name << " twice";
        const std::string letter = p.letter ? std::string("Fl ") + p.letter + " , " : std::string();
        std::string entry = ".It " + letter + "Fl -" + p.name + "\n.Em " + p.verdict + "\n";
        if (*p.words) entry += std::string(".No \\(em\n") + p.words + "\n";
        EXPECT_NE(text.find(entry), std::string::npos) << entry;
    }
    EXPECT_GE(names.size(), 114u);
}

TEST(P2pManPage, ListsTheOptionsOfAllPrograms) {
    const std::string text = page();
    const std::regex name("--([A-Za-z][A-Za-z0-9_-]*)");
    for (const kind k : {kind::write_bw, kind::write_lat, kind::atomic_lat}) {
        const std::string help = parse(k, {"--help"}).out;
        for (std::sregex_iterator i(help.begin(), help.end(), name), end; i != end; ++i)
            EXPECT_NE(text.find("Fl -" + (*i)[1].str()), std::string::npos) << (*i)[0];
    }
}

TEST(P2pManPage, CallsSameWhatTheProgramsTake) {
    const std::string help = parse(kind::write_bw, {"--help"}).out;
    for (const perftest_option& p : perftest_options()) {
        const std::string verdict = p.verdict;
        const bool taken =
            std::regex_search(help, std::regex("--" + std::string(p.name) + "(?![A-Za-z0-9_-])"));
        EXPECT_EQ(taken, verdict == "same" || verdict == "ignored") << p.name;
    }
}

}  // namespace
}  // namespace ef::perf::p2p
