// What ibnetdiscover prints, read as a fabric; each way in which such output can be cut or wrong is
// named by its line.
#include "affinity/fabric/ibnetdiscover.hpp"

#include "affinity/fabric/load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

using namespace ef;
using namespace ef::fabric;

namespace {

constexpr const char* sample = "tests/data/fabric/ibnetdiscover.txt";

std::string sample_text() {
    std::ifstream f(sample);
    return std::string((std::istreambuf_iterator<char>(f)), {});
}

std::string refusal(std::string text) {
    const result<graph> g = parse_fabric("f", std::move(text));
    return g.ok() ? "accepted" : std::string(g.why().text());
}

// The sample with one thing changed.
std::string changed(std::string_view from, std::string_view to) {
    std::string text = sample_text();
    const size_t at = text.find(from);
    if (at == std::string::npos) return "the sample has no " + std::string(from);
    return refusal(text.replace(at, from.size(), to));
}

std::vector<std::string> names(const graph& g, std::span<const node_id> ids) {
    std::vector<std::string> out;
    for (node_id n : ids) out.push_back(g.at(n).name);
    return out;
}

// ---------------------------------------------------------------- what is read

TEST(IbNetDiscover, MakesEachCabledPortAHostOfItsServerInNaturalOrder) {
    const result<graph> r = load_fabric(sample);
    ASSERT_TRUE(r.ok()) << r.why().text();
    const graph& g = *r;
    EXPECT_TRUE(g.check().ok());
    EXPECT_EQ(names(g, g.switches()),
              (std::vector<std::string>{"MF0;spine1:MQM8700/U1", "leaf2", "leaf10"}));
    EXPECT_EQ(names(g, g.hosts()),
              (std::vector<std::string>{"login/HCA-1/1", "login/HCA-1/2", "node2/mlx5_0",
                                        "node2/mlx5_2", "node2/mlx5_10", "node10/mlx5_0",
                                        "node10/mlx5_2", "node10/mlx5_10"}));
    const node_id h = g.find("node10/mlx5_2");
    EXPECT_EQ(g.at(h).server, "node10");
    EXPECT_EQ(g.at(h).rail, 1u);
    EXPECT_EQ(g.at(g.switch_of(h)).name, "leaf10");
    EXPECT_EQ(g.edge(g.uplink(h)).gbps, 200);
    EXPECT_EQ(g.edge(g.uplink(g.find("login/HCA-1/1"))).gbps, 100);  // 2xHDR
    EXPECT_EQ(g.at(g.find("login/HCA-1/2")).rail, 1u);
}

TEST(IbNetDiscover, FindsParallelCablesAndTiersAndLeavesAggregationNodesOut) {
    const result<graph> r = load_fabric(sample);
    ASSERT_TRUE(r.ok()) << r.why().text();
    const graph& g = *r;
    EXPECT_EQ(g.at(g.find("leaf2")).tier, 1);
    EXPECT_EQ(g.at(g.find("MF0;spine1:MQM8700/U1")).tier, 2);
    EXPECT_EQ(g.links().size(), 2 * (8 + 4u));
    EXPECT_NE(g.find_link("leaf10-MF0;spine1:MQM8700/U1/1"), none);
    for (const node& n : g.nodes())
        EXPECT_EQ(n.name.find("Aggregation"), std::string::npos) << n.name;
}

TEST(IbNetDiscover, TakesNodesThatShareADescriptionForServersOfTheirOwn) {
    std::string text = sample_text();
    for (const char* name : {"node2 mlx5_0", "node10 mlx5_0"})
        for (size_t at = 0; (at = text.find(std::string("\"") + name + "\"", at)) != text.npos;)
            text.replace(at + 1, std::string(name).size(), "localhost");
    const result<graph> r = parse_fabric("f", text);
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_EQ(r->at(r->find("H-00bb000000000201")).server, "H-00bb000000000201");
    EXPECT_NE(r->find("H-00bb000000000101"), none);
    EXPECT_EQ(r->at(r->find("node2/mlx5_2")).rail, 0u);
}

TEST(IbNetDiscover, TakesNodesWhoseDescriptionsDifferInUnprintableBytesForTheSame) {
    std::string text = sample_text();
    const std::pair<std::string, std::string> changes[] = {
        {"node2 mlx5_0\"", "node\xff mlx5_0\""}, {"node10 mlx5_0\"", "node\xfe mlx5_0\""}};
    for (const auto& [from, to] : changes)
        for (size_t at = 0; (at = text.find(from, at)) != text.npos;)
            text.replace(at, from.size(), to);
    const result<graph> r = parse_fabric("f", text);
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_NE(r->find("H-00bb000000000101"), none);
    EXPECT_NE(r->find("H-00bb000000000201"), none);
}

TEST(IbNetDiscover, IsTheSameFabricWhateverTheOrderOfDiscovery) {
    std::string text = sample_text(), header = text.substr(0, text.find("\n\n") + 1);
    std::vector<std::string> sections;
    for (size_t at = header.size(); at < text.size();) {
        const size_t end = std::min(text.find("\n\n", at + 1), text.size());
        sections.push_back(text.substr(at, end - at));
        if (!sections.back().ends_with('\n')) sections.back() += '\n';
        at = end + 1;
    }
    ASSERT_EQ(sections.size(), 11u);
    const result<graph> one = parse_fabric("f", text);
    std::reverse(sections.begin(), sections.end());
    std::string other = header;
    for (const std::string& s : sections) other += "\n" + s;
    const result<graph> two = parse_fabric("f", other);
    ASSERT_TRUE(one.ok() && two.ok()) << one.why().text() << two.why().text();
    EXPECT_EQ(names(*one, one->hosts()), names(*two, two->hosts()));
    EXPECT_EQ(names(*one, one->switches()), names(*two, two->switches()));
}

TEST(IbNetDiscover, ReadsWhatItsOptionsAdd) {
    // -g: chassis and external ports; -f: speeds as numbers; Windows line ends.
    std::string text =
        "# Topology file: generated on Tue\r\n"
        "Chassis 1 (guid 0x1) # \"big\"\r\n"
        "switchguid=0x10(10)\t# Chassis 1\r\n"
        "Switch\t36 \"S-0000000000000010\"\t\t# \"s # one\" base port 0 lid 3 lmc 0\r\n"
        "[1][ext 4]\t\"H-0000000000000001\"[1](1) \t\t# \"a \"x\" mlx5_0\" lid 5 4xNDR s=7 w=2\r\n"
        "[2]\t\"R-0000000000000003\"[1](3) \t\t# \"gateway\" lid 6 4xEDR\r\n"
        "Non-Chassis Nodes\r\n"
        "Ca\t1 \"H-0000000000000001\"\t\t# \"a \"x\" mlx5_0\"\r\n"
        "[1](1) \t\"S-0000000000000010\"[1][ext 4]\t\t# lid 5 lmc 0 \"s # one\" lid 3 4xNDR s=7\r\n"
        "rtguid=0x3\r\n"
        "Rt\t1 \"R-0000000000000003\"\t\t# \"gateway\"\r\n"
        "[1](3) \t\"S-0000000000000010\"[2]\t\t# lid 6 lmc 0 \"s # one\" lid 3 4xEDR\r\n";
    const result<graph> r = parse_fabric("f", text);
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_EQ(names(*r, r->switches()), std::vector<std::string>{"s # one"});
    ASSERT_EQ(r->hosts().size(), 1u);
    EXPECT_EQ(r->edge(r->uplink(r->hosts()[0])).gbps, 400);
}

TEST(IbNetDiscover, KnowsTheDataRateOfEachWidthAndSpeed) {
    EXPECT_EQ(infiniband_gbps("1xSDR"), 2);
    EXPECT_EQ(infiniband_gbps("4xDDR"), 16);
    EXPECT_EQ(infiniband_gbps("4xQDR"), 32);
    EXPECT_EQ(infiniband_gbps("4xFDR10"), 40);
    EXPECT_NEAR(infiniband_gbps("4xFDR"), 54.5, 0.1);
    EXPECT_EQ(infiniband_gbps("4xEDR"), 100);
    EXPECT_EQ(infiniband_gbps("12xEDR"), 300);
    EXPECT_EQ(infiniband_gbps("2xHDR"), 100);
    EXPECT_EQ(infiniband_gbps("4xNDR"), 400);
    EXPECT_EQ(infiniband_gbps("4xXDR"), 800);
    for (const char* no : {"", "4x", "4xE", "xEDR", "3xEDR", "4EDR", "-4xEDR", "4xEDRs", "4x???"})
        EXPECT_EQ(infiniband_gbps(no), 0) << no;
}

// ---------------------------------------------------------------- what is cut or wrong

TEST(IbNetDiscover, RefusesOutputThatWasCutWhereverThatWas) {
    const std::string text = sample_text();
    // Anywhere but in front of the last line's end, where nothing is missing.
    for (size_t n = text.find("Switch"); n + 1 < text.size(); ++n) {
        const std::string why = refusal(text.substr(0, n));
        ASSERT_NE(why, "accepted") << "cut to " << n << " bytes";
        ASSERT_TRUE(why.starts_with("f:")) << why;
        ASSERT_EQ(why.find('\n'), why.npos) << why;
    }
}

TEST(IbNetDiscover, NamesTheEndThatIsMissing) {
    const std::string text = sample_text();
    EXPECT_EQ(
        refusal(text.substr(0, text.find("\nvendid=0x2c9\ndevid=0x101b"))),
        "f:11: port 1 of \"S-00aa000000000010\" leads to \"H-00bb000000000201\", which has no "
        "section: the output is cut");
    EXPECT_EQ(changed("[3]\t\"S-00aa000000000020\"[7]\t\t# \"leaf10\" lid 8 4xHDR\n", ""),
              "f:27: port 7 of \"S-00aa000000000020\" leads to port 3 of \"S-00aa000000000030\", "
              "which has no line of its own: the output is cut");
    EXPECT_EQ(changed("[4]\t\"S-00aa000000000020\"[8]\t\t# \"leaf10\"",
                      "[4]\t\"S-00aa000000000020\"[5]\t\t# \"leaf10\""),
              "f:28: port 8 of \"S-00aa000000000020\" leads to port 4 of \"S-00aa000000000030\", "
              "but that leads to port 5 of \"S-00aa000000000020\"");
}

struct wrong {
    const char *name, *from, *to, *reason;
};
class BadOutput : public testing::TestWithParam<wrong> {};

TEST_P(BadOutput, IsRefusedWithLineAndReason) {
    EXPECT_EQ(changed(GetParam().from, GetParam().to), GetParam().reason);
}

const wrong bad[] = {
    {"SpeedCut", "\"node2 mlx5_0\" lid 11 4xHDR", "\"node2 mlx5_0\" lid 11 4xHD",
     "f:11: no width and speed such as 4xEDR in \" \"node2 mlx5_0\" lid 11 4xHD\""},
    {"PortLineCut", "[1]\t\"H-00bb000000000201\"[1](bb000000000201) \t\t#", "[1]\t\"H-00bb0000\n#",
     "f:11: not a whole port line: [port] \"id\"[port] # description and speed"},
    {"HeaderCut", "Switch\t8 \"S-00aa000000000020\"\t\t# \"leaf10\"",
     "Switch\t8 \"S-00aa000000000020\"\t\t#",
     "f:22: not a whole section header: number of ports, \"id\", # \"description\""},
    {"IdOfAnotherKind", "Ca\t1 \"H-00bb000000000101\"", "Ca\t1 \"S-00bb000000000101\"",
     "f:45: id \"S-00bb000000000101\" is not one of this kind, it would begin with H-"},
    {"SectionTwice", "Switch\t8 \"S-00aa000000000020\"", "Switch\t8 \"S-00aa000000000010\"",
     "f:22: a second section for \"S-00aa000000000010\""},
    {"PortTwice", "[2]\t\"H-00bb000000000203\"", "[1]\t\"H-00bb000000000203\"",
     "f:12: a second line for port 1 of \"S-00aa000000000010\""},
    {"PortBeyondTheSwitch", "[8]\t\"S-00aa000000000030\"", "[9]\t\"S-00aa000000000030\"",
     "f:16: port 9 of \"S-00aa000000000010\", which has 8 ports"},
    {"StrangeLine", "\nvendid=0x2c9\ndevid=0xd2f0", "\nCA 12 1 0x1 4x EDR\ndevid=0xd2f0",
     "f:6: \"CA 12 1 0x1 4x EDR\" is no line of ibnetdiscover"},
    {"PortOfNothing", "\nvendid=0x2c9", "\n[1]\t\"S-0001\"[1]\t# \"x\" lid 1 4xEDR",
     "f:6: a port before any Switch or Ca"},
};
INSTANTIATE_TEST_SUITE_P(Lines, BadOutput, testing::ValuesIn(bad),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(IbNetDiscover, RefusesTwoAdaptersThatAreCabledToEachOther) {
    EXPECT_EQ(
        refusal("Ca 1 \"H-0001\" # \"a mlx5_0\"\n"
                "[1](1) \"H-0002\"[1](2) # lid 1 lmc 0 \"b mlx5_0\" lid 2 4xEDR\n"
                "Ca 1 \"H-0002\" # \"b mlx5_0\"\n"
                "[1](2) \"H-0001\"[1](1) # lid 2 lmc 0 \"a mlx5_0\" lid 1 4xEDR\n"),
        "f:2: a cable joins host \"a/mlx5_0\" and host \"b/mlx5_0\": a host's cable goes to a "
        "switch");
}

TEST(IbNetDiscover, RefusesAHeaderWithNothingBehindIt) {
    EXPECT_EQ(refusal("#\n# Topology file: generated on Tue\n#\n"), "f:1: no Switch and no Ca");
}

}  // namespace
