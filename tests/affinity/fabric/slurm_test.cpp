// Slurm's topology.conf read as a fabric: trees, blocks, host lists; what does not fit is named by
// its line.
#include "affinity/fabric/slurm.hpp"

#include "affinity/fabric/load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace ef;
using namespace ef::fabric;

namespace {

std::string refusal(std::string text) {
    const result<graph> g = parse_fabric("f", std::move(text), file_format::slurm);
    return g.ok() ? "accepted" : std::string(g.why().text());
}

std::vector<std::string> names(const graph& g, std::span<const node_id> ids) {
    std::vector<std::string> out;
    for (node_id n : ids) out.push_back(g.at(n).name);
    return out;
}

using strings = std::vector<std::string>;

// ---------------------------------------------------------------- trees and blocks

TEST(SlurmTree, HasASwitchForEachLineAndACableForEachNodeOfIt) {
    const result<graph> r = load_fabric("tests/data/fabric/topology-tree.conf");
    ASSERT_TRUE(r.ok()) << r.why().text();
    const graph& g = *r;
    EXPECT_TRUE(g.check().ok());
    EXPECT_EQ(g.name, "slurm tree, 100 Gb/s a cable assumed");
    EXPECT_EQ(names(g, g.switches()), (strings{"leaf1", "leaf2", "top"}));
    EXPECT_EQ(names(g, g.hosts()), (strings{"n01", "n02", "n03", "n04", "n07", "n05", "n06",
                                            "gpu1b0", "gpu1b1", "gpu2b0", "gpu2b1"}));
    const node_id n7 = g.find("n07"), b = g.find("gpu1b1");
    EXPECT_EQ(g.at(n7).server, "n07");
    EXPECT_EQ(g.at(n7).address, "n07");
    EXPECT_EQ(g.at(g.switch_of(n7)).name, "leaf1");
    EXPECT_EQ(g.edge(g.uplink(n7)).gbps, 100);
    EXPECT_EQ(g.edge(g.uplink(b)).gbps, 200);
    EXPECT_EQ(g.edge(g.find_link("leaf2-top")).gbps, 400);
    EXPECT_EQ(g.at(g.find("leaf2")).tier, 1);
    EXPECT_EQ(g.at(g.find("top")).tier, 2);
}

TEST(SlurmTree, SaysNothingOfAssumptionsWhereEachLineHasALinkSpeed) {
    const result<graph> r = parse_fabric("f", "SwitchName=s Nodes=a,b LinkSpeed=\"12.5\"\n");
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_EQ(r->name, "slurm tree");
    EXPECT_EQ(r->edge(r->uplink(r->hosts()[1])).gbps, 12.5);
}

TEST(SlurmBlocks, AreSwitchesJoinedByOneCoreThatTheNameTellsOf) {
    const result<graph> r = load_fabric("tests/data/fabric/topology-block.conf");
    ASSERT_TRUE(r.ok()) << r.why().text();
    const graph& g = *r;
    EXPECT_TRUE(g.check().ok());
    EXPECT_EQ(g.name,
              "slurm blocks joined by one switch \"core\" with a cable for each node, "
              "100 Gb/s a cable assumed");
    EXPECT_EQ(names(g, g.switches()), (strings{"b1", "b2", "core"}));
    EXPECT_EQ(names(g, g.hosts()), (strings{"n1", "n2", "n3", "n4", "n5"}));
    EXPECT_EQ(g.out(g.find("b1")).size(), 6u);
    EXPECT_EQ(g.out(g.find("core")).size(), 5u);
    EXPECT_NE(g.find_link("b1-core/2"), none);
    EXPECT_EQ(g.at(g.find("core")).tier, 2);
}

TEST(SlurmBlocks, NeedNoCoreWhenThereIsOne) {
    const result<graph> r = parse_fabric("f", "BlockSizes=2\nBlockName=b Nodes=n[1-2]\n");
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_EQ(r->switches().size(), 1u);
}

// ---------------------------------------------------------------- host lists

TEST(HostList, IsExpandedInItsOrder) {
    const std::pair<const char*, strings> cases[] = {
        {"a", {"a"}},
        {"b,a", {"b", "a"}},
        {"n[1-3]", {"n1", "n2", "n3"}},
        {"n[08-10]", {"n08", "n09", "n10"}},
        {"n[9-11]x", {"n9x", "n10x", "n11x"}},
        {"n[3,1-2,07]", {"n3", "n1", "n2", "n07"}},
        {"r[0-1]n[1-2],z", {"r0n1", "r0n2", "r1n1", "r1n2", "z"}},
        {"[1-2]", {"1", "2"}},
        {"n[000000000000000001]", {"n000000000000000001"}},
    };
    for (const auto& [text, expected] : cases) {
        strings out;
        const status s = expand_hostlist(text, 100, out);
        EXPECT_TRUE(s.ok()) << text << ": " << s.text();
        EXPECT_EQ(out, expected) << text;
    }
}

TEST(HostList, IsRefusedWhereItIsNone) {
    for (const char* text :
         {"", ",", "a,", "n[", "n[1", "n]1", "n[]", "n[1-]", "n[-2]", "n[a-b]", "n[2-1]", "n[1,]",
          "n[1-2", "n[[1]]", "n[1-2]]", "n[99999999999999999999]", "n\xff"}) {
        strings out;
        EXPECT_FALSE(expand_hostlist(text, 100, out).ok()) << text;
    }
}

TEST(HostList, IsBoundedBeforeItIsExpanded) {
    strings out;
    const std::string why(expand_hostlist("n[0-999999999999999999]", 1000, out).text());
    EXPECT_EQ(why, "a host list of more than 1000 names");
    for (const char* text : {"a[0-999]b[0-999]c[0-999]d[0-999]", "a[0-600],b[0-600]"}) {
        out.clear();
        EXPECT_FALSE(expand_hostlist(text, 1000, out).ok()) << text;
        EXPECT_LE(out.size(), 1000u);
    }
}

// ---------------------------------------------------------------- what does not fit

struct wrong {
    const char *name, *text, *reason;
};
class BadTopology : public testing::TestWithParam<wrong> {};

TEST_P(BadTopology, IsRefusedWithLineAndReason) {
    EXPECT_EQ(refusal(GetParam().text), GetParam().reason);
}

const wrong bad[] = {
    {"NodeOnTwoSwitches",
     "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=t Switches=s[1-2]\n",
     "f:2: host \"n3\" is already on switch \"s1\": a host is one port; name further ports of the "
     "server as hosts of their own"},
    {"UnknownSwitch", "SwitchName=s1 Nodes=n1\nSwitchName=t Switches=s[1-2]\n",
     "f:2: there is no switch \"s2\""},
    {"SwitchTwice", "SwitchName=s1 Nodes=n1\n\nSwitchName=s1 Nodes=n2\n",
     "f:3: \"s1\" is already the name of a switch"},
    {"NodeNamedAsSwitch", "SwitchName=s1 Nodes=s1\n",
     "f:1: \"s1\" is already the name of a switch"},
    {"TwoParents", "SwitchName=s1 Nodes=n1\nSwitchName=t1 Switches=s1\nSwitchName=t2 Switches=s1\n",
     "f:3: switch \"s1\" is under \"t1\" already: it has to be a tree"},
    {"Cycle",
     "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n",
     "f:3: switch \"a\" is under itself"},
    {"Itself", "SwitchName=a Nodes=n1 Switches=a\n", "f:1: switch \"a\" is under itself"},
    {"Apart", "SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\n",
     "f:2: host \"n2\" cannot be reached from host \"n1\", and not every server "
     "has "
     "a host on every part"},
    {"NothingBelow", "SwitchName=s1 Nodes=n1\nSwitchName=s2\n",
     "f:2: \"s2\" has no Nodes and no Switches"},
    {"UnknownKey", "SwitchName=s1 Node=n1\n",
     "f:1: unknown key \"Node\", known are SwitchName, Nodes, Switches, LinkSpeed, BlockName, "
     "BlockSizes"},
    {"KeyTwice", "SwitchName=s1 Nodes=n1 Nodes=n2\n", "f:1: \"Nodes\" is there twice"},
    {"TwoNames", "SwitchName=s1 SwitchName=s2 Nodes=n1\n", "f:1: two names on one line"},
    {"NameOfMany", "SwitchName=s[1-2] Nodes=n1\n",
     "f:1: \"s[1-2]\" is not the name of one switch or block"},
    {"NoName", "Nodes=n1\n", "f:1: the line does not begin with SwitchName= or BlockName="},
    {"ZeroSpeed", "SwitchName=s1 Nodes=n1 LinkSpeed=0\n",
     "f:1: LinkSpeed=\"0\" is not a number of Gb/s above 0"},
    {"NegativeSpeed", "# first\nSwitchName=s1 Nodes=n1 LinkSpeed=-5\n",
     "f:2: LinkSpeed=\"-5\" is not a number of Gb/s above 0"},
    {"SpeedInWords", "SwitchName=s1 Nodes=n1 LinkSpeed=100G\n",
     "f:1: LinkSpeed=\"100G\" is not a number of Gb/s above 0"},
    {"NoPair", "SwitchName=s1 Nodes=n1 fast\n", "f:1: \"fast\" is not KEY=VALUE"},
    {"NoValue", "SwitchName=s1 Nodes=\n", "f:1: \"Nodes\" has no whole value"},
    {"QuoteOpen", "SwitchName=s1 Nodes=\"n1\n", "f:1: \"Nodes\" has no whole value"},
    {"BadList", "SwitchName=s1 \\\n Nodes=n[2-1]\n",
     "f:1: \"n[2-1]\" is no host list: \"2-1\" runs backwards"},
    {"TooManyNodes", "SwitchName=s1 Nodes=n[1-2000000]\n",
     "f:1: a host list of more than 1048576 names"},
    {"BothForms", "SwitchName=s1 Nodes=n1\nBlockName=b1 Nodes=n2\n",
     "f:2: switches and blocks in one file: it is either a tree or blocks"},
    {"BlockOfSwitches", "BlockName=b1 Nodes=n1 Switches=s1\n", "f:1: a block has no switches"},
    {"BlockWithSpeed", "BlockName=b1 Nodes=n1 LinkSpeed=1\n", "f:1: a block has no LinkSpeed"},
    {"BlockSizes", "BlockName=b1 Nodes=n1\nBlockSizes=many\n",
     "f:2: BlockSizes=\"many\" is no list of numbers of nodes"},
    {"NodeInTwoBlocks", "BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n1\n",
     "f:2: host \"n1\" is already on switch \"b1\": a host is one port; name further ports of the "
     "server as hosts of their own"},
    {"Nothing", "# nothing\n", "f:2: no SwitchName and no BlockName"},
};
INSTANTIATE_TEST_SUITE_P(Lines, BadTopology, testing::ValuesIn(bad),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(SlurmTree, RefusesAChainOfSwitchesThatIsTooDeep) {
    std::string text = "SwitchName=s0 Nodes=n\n";
    for (int i = 1; i < 400; ++i) text += fmt::format("SwitchName=s{} Switches=s{}\n", i, i - 1);
    EXPECT_EQ(refusal(text),
              "f:256: switch \"s255\" is 256 cables away from the nearest host; at most 255 are "
              "possible");
}

}  // namespace
