// Fabric files of our own format: what they may say, that what is written is read again as the same
// graph, and that each thing that does not fit is named by line, column, path and reason.
#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/load.hpp"
#include "tests/affinity/fabric/same_graph.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <string>

using namespace ef;
using namespace ef::fabric;

namespace {

result<graph> json(std::string text) { return parse_fabric("f", std::move(text)); }

std::string refusal(std::string text) {
    const result<graph> g = json(std::move(text));
    return g.ok() ? "accepted" : std::string(g.why().text());
}

// "$" is the part that a test is about.
std::string within(std::string_view frame, std::string_view part) {
    std::string text(frame);
    return text.replace(text.find('$'), 1, part);
}

constexpr std::string_view small =
    "{\"eflops-fabric\": 1, \"gbps\": 100,\n"
    " \"switches\": [{\"name\": \"s0\"}, {\"name\": \"s1\"}, {\"name\": \"top\"}],\n"
    " \"hosts\": [{\"name\": \"h0\", \"switch\": \"s0\"},\n"
    "           {\"name\": \"h1\", \"switch\": \"s1\"}],\n"
    " \"cables\": [{\"a\": \"s0\", \"b\": \"top\"},\n"
    "            $]}\n";

// ---------------------------------------------------------------- what a file may say

TEST(FabricFile, DescribesHostsSwitchesAndCables) {
    const result<graph> r = load_fabric("tests/data/fabric/two-tier.json");
    ASSERT_TRUE(r.ok()) << r.why().text();
    const graph& g = *r;
    EXPECT_EQ(g.name, "two tiers, two rails");
    ASSERT_EQ(g.hosts().size(), 4u);
    ASSERT_EQ(g.switches().size(), 3u);
    const node_id a1 = g.find("a/1");
    EXPECT_EQ(g.at(a1).server, "a");
    EXPECT_EQ(g.at(a1).rail, 1u);
    EXPECT_EQ(g.at(a1).address, "10.0.1.1");
    EXPECT_EQ(g.edge(g.uplink(a1)).gbps, 200);
    EXPECT_EQ(g.at(g.switch_of(a1)).name, "leaf1");
    EXPECT_EQ(g.at(g.find("leaf1")).tier, 1);
    EXPECT_EQ(g.at(g.find("spine")).tier, 2);
    const link_id lane1 = g.find_link("leaf0-spine/1");
    ASSERT_NE(lane1, none);
    EXPECT_EQ(g.edge(lane1).gbps, 400);
    EXPECT_TRUE(g.edge(lane1).up);
    const link_id slow = g.find_link("leaf1-spine");
    EXPECT_EQ(g.edge(slow).gbps, 400);
    EXPECT_EQ(g.edge(g.edge(slow).reverse).gbps, 50);
    EXPECT_FALSE(g.edge(g.find_link("leaf1-spine/1")).up);
    EXPECT_EQ(g.edge(slow).to_address, "10.9.0.1");
    EXPECT_EQ(g.edge(g.edge(slow).reverse).to_address, "10.9.0.0");
}

TEST(FabricFile, MayNameAGeneratorWithAddressesAndWhatIsDown) {
    for (const char* how :
         {"\"bigraph:S=2,H=2,L=2,gbps=25\"",
          "{\"kind\": \"bigraph\", \"S\": 2, \"H\": 2, \"L\": 2, \"gbps\": 25}"}) {
        SCOPED_TRACE(how);
        const result<graph> r =
            json(within("{\"eflops-fabric\": 1, \"name\": \"pod\", \"generate\": $,"
                        "\"hosts\": [{\"name\": \"L1p0\", \"address\": \"10.0.0.7\"}],"
                        "\"down\": [\"U0-L1/1\", \"L0\"]}",
                        how));
        ASSERT_TRUE(r.ok()) << r.why().text();
        graph expected = make_bigraph({2, 2, 2, 1}, 25);
        expected.name = "pod";
        expected.set_address(expected.find("L1p0"), "10.0.0.7");
        expected.set_up(expected.find_link("U0-L1/1"), false);
        expected.set_switch_up(expected.find("L0"), false);
        expect_same(expected, *r);
    }
}

TEST(FabricFile, FindsTiersByTheDistanceFromHosts) {
    const result<graph> r = json(within(small, "{\"a\": \"top\", \"b\": \"s1\"}"));
    ASSERT_TRUE(r.ok()) << r.why().text();
    EXPECT_EQ(r->at(r->find("h0")).tier, 0);
    EXPECT_EQ(r->at(r->find("s1")).tier, 1);
    EXPECT_EQ(r->at(r->find("top")).tier, 2);
}

TEST(FabricFile, KeepsTheBiGraphThatItsCablesFulfil) {
    const result<graph> r = load_fabric("tests/data/fabric/bigraph.json");
    ASSERT_TRUE(r.ok()) << r.why().text();
    ASSERT_TRUE(r->bigraph.has_value());
    EXPECT_EQ(r->bigraph->switches, 2u);
    EXPECT_EQ(r->bigraph->hosts, 1u);
    EXPECT_EQ(r->bigraph->lanes, 2u);
    EXPECT_EQ(r->at(r->find("west")).side, 1);
}

// Literal blocks of the manual page that are files of this format.
std::vector<std::string> examples() {
    std::vector<std::string> out;
    std::ifstream page("man/eflops-fabric.5");
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with(".Ed")) inside = false;
        if (inside) out.back() += line + "\n";
        if (line.starts_with(".Bd -literal")) {
            inside = true;
            out.emplace_back();
        }
    }
    std::erase_if(out, [](const std::string& t) { return !t.starts_with("{"); });
    return out;
}

TEST(FabricPage, HasExamplesThatAreReadAndMeanWhatItSays) {
    const std::vector<std::string> texts = examples();
    ASSERT_EQ(texts.size(), 3u);
    std::vector<graph> g;
    for (const std::string& t : texts) {
        result<graph> r = json(t);
        ASSERT_TRUE(r.ok()) << r.why().text() << "\n" << t;
        g.push_back(std::move(*r));
    }
    EXPECT_EQ(g[0].hosts().size(), 4u);
    EXPECT_EQ(g[0].edge(g[0].find_link("leaf1-spine/1")).gbps, 400);
    // "The same network by its cables"
    g[2].name = g[1].name;
    for (node_id h : g[2].hosts()) g[2].set_address(h, g[1].at(h).address);
    expect_same(g[1], g[2]);
}

// ---------------------------------------------------------------- round trip

class RoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, GivesTheSameGraphAlsoWhenCablesAreDown) {
    result<graph> g = make_from_text(GetParam());
    ASSERT_TRUE(g.ok()) << g.why().text();
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    for (int round = 0; round < 3; ++round) {
        const std::string text = write_fabric(*g);
        const result<graph> again = parse_fabric("written", text);
        ASSERT_TRUE(again.ok()) << again.why().text();
        expect_same(*g, *again);
        EXPECT_EQ(write_fabric(*again), text);
        for (int i = 0; i < 5; ++i) g->set_up(link_id(random() % g->links().size()), false);
        g->set_switch_up(g->switches()[random() % g->switches().size()], false);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Generators, RoundTrip,
    testing::Values("bigraph:S=1,H=1", "bigraph:S=4,H=2,gbps=12.5", "bigraph:S=3,H=5,L=2",
                    "bigraph:S=2,H=2,L=3,rails=2", "leafspine:leaves=4,hosts=4,spines=4,gbps=25",
                    "leafspine:leaves=3,hosts=2,spines=2,lanes=2,spine_gbps=400", "fattree:k=2",
                    "fattree:k=4", "fattree:k=6", "single:hosts=1", "single:hosts=16"));

TEST(FabricFile, WritesNamesAddressesAndOneWaySpeedsThatAreReadAgain) {
    graph g;
    g.name = "quote \" backslash \\ tab \t end";
    const node_id a = g.add_switch("s \"a\"\\", 1), h = g.add_host("h\\u0041", "server one", 3);
    const node_id b = g.add_switch("s\nb", 7), k = g.add_host("\xc3\xa4", "server two");
    g.add_cable(a, b, 1e-3, 123456.789);
    g.add_cable(a, h, 10);
    g.add_cable(k, b, 10);
    g.set_address(h, "10.0.0.1");
    g.set_link_address(0, "10.9.0.1");
    g.set_link_address(1, "10.9.0.0");
    const result<graph> again = parse_fabric("written", write_fabric(g));
    ASSERT_TRUE(again.ok()) << again.why().text();
    expect_same(g, *again);
}

// ---------------------------------------------------------------- what does not fit

struct wrong {
    const char *name, *text, *reason;
};

class BadFile : public testing::TestWithParam<wrong> {};
class BadCable : public testing::TestWithParam<wrong> {};
std::string name_of(const testing::TestParamInfo<wrong>& i) { return i.param.name; }

TEST_P(BadFile, IsRefusedWithLineColumnPathAndReason) {
    EXPECT_EQ(refusal(GetParam().text), GetParam().reason);
}

TEST_P(BadCable, IsRefusedWithLineColumnPathAndReason) {
    EXPECT_EQ(refusal(within(small, GetParam().text)), GetParam().reason);
}

const wrong bad_cables[] = {
    {"UnknownSwitch", R"({"a": "top", "b": "s9"})",
     "f:6:31: cables[1].b: there is no switch or host \"s9\""},
    {"UnknownKey", R"({"a": "top", "b": "s1", "lane": 2})",
     "f:6:37: cables[1].lane: unknown key \"lane\", known are a, b, gbps, lanes, up, a_address, "
     "b_address"},
    {"MissingKey", R"({"a": "top"})", "f:6:13: cables[1]: key \"b\" is missing"},
    {"NegativeCapacity", R"({"a": "top", "b": "s1", "gbps": -100})",
     "f:6:45: cables[1].gbps: a capacity of -100 Gb/s, it must be above 0 and at most 1000000000"},
    {"ZeroCapacity", R"({"a": "top", "b": "s1", "gbps": 0})",
     "f:6:45: cables[1].gbps: a capacity of 0 Gb/s, it must be above 0 and at most 1000000000"},
    {"NegativeCapacityBack", R"({"a": "top", "b": "s1", "gbps": [1, -2.5]})",
     "f:6:49: cables[1].gbps[1]: a capacity of -2.5 Gb/s, it must be above 0 and at most "
     "1000000000"},
    {"ThreeCapacities", R"({"a": "top", "b": "s1", "gbps": [1, 2, 3]})",
     "f:6:45: cables[1].gbps: not two numbers: Gb/s there and back"},
    {"CapacityAsText", R"({"a": "top", "b": "s1", "gbps": "fast"})",
     "f:6:45: cables[1].gbps: a string, not a number"},
    {"HalfALane", R"({"a": "top", "b": "s1", "lanes": 1.5})",
     "f:6:46: cables[1].lanes: 1.5 is not a whole number from 1 to 65536"},
    {"UpAsNumber", R"({"a": "top", "b": "s1", "up": 0})",
     "f:6:43: cables[1].up: a number, not true or false"},
    {"HostOnTwoPorts", R"({"a": "h1", "b": "top"})",
     "f:6:19: cables[1].a: host \"h1\" is already on switch \"s1\": a host is one port; name "
     "further ports of the server as hosts of their own"},
    {"CableToItself", R"({"a": "top", "b": "top"})",
     "f:6:31: cables[1].b: a cable from switch \"top\" to itself"},
    {"KeyTwice", R"({"a": "top", "b": "s1", "a": "s0"})",
     "f:6:37: cables[1].a: key \"a\" is there twice"},
    {"NoObject", "[]", "f:6:13: cables[1]: an array, not an object"},
    {"AddressesOfLanes", R"({"a": "top", "b": "s1", "lanes": 2, "a_address": "10.0.0.1"})",
     "f:6:13: cables[1]: lanes have addresses of their own: list each as a cable"},
    {"Disconnected", R"({"a": "s0", "b": "top"})",
     "f:4:21: hosts[1].name: host \"h1\" cannot be reached from host \"h0\", and "
     "not every server has a host on every part"},
    {"CutText", R"({"a": "top", "b")",
     "f:6:29: not JSON: syntax error while parsing object separator - unexpected ']'; expected "
     "':'"},
};
INSTANTIATE_TEST_SUITE_P(Cables, BadCable, testing::ValuesIn(bad_cables), name_of);

const wrong bad_files[] = {
    {"NoVersion", "{\n\"switches\": [], \"hosts\": []}", "f:1:1: key \"eflops-fabric\" is missing"},
    {"OtherVersion", "{\"eflops-fabric\":\n 2}",
     "f:2:2: eflops-fabric: 2 is not a whole number from 1 to 1"},
    {"UnknownTopKey", "{\"eflops-fabric\": 1,\n \"nodes\": []}",
     "f:2:2: nodes: unknown key \"nodes\", known are eflops-fabric, name, gbps, generate, bigraph, "
     "switches, hosts, cables, down"},
    {"NoHostsKey", "{\"eflops-fabric\": 1, \"switches\": []}", "f:1:1: key \"hosts\" is missing"},
    {"NoHosts", "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\"}],\n \"hosts\": []}",
     "f:1:1: the fabric has no hosts"},
    {"HostsAsObject", "{\"eflops-fabric\": 1, \"switches\": [],\n \"hosts\": {}}",
     "f:2:11: hosts: an object, not an array"},
    {"NameTwice",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"x\"}],\n \"hosts\": [{\"name\": \"x\"}]}",
     "f:2:21: hosts[0].name: \"x\" is already the name of a switch"},
    {"NameEmpty", "{\"eflops-fabric\": 1, \"switches\": [{\"name\":\n\"\"}], \"hosts\": []}",
     "f:2:1: switches[0].name: a name must not be empty"},
    {"NameMissing", "{\"eflops-fabric\": 1, \"switches\": [\n{}], \"hosts\": []}",
     "f:2:1: switches[0]: key \"name\" is missing"},
    {"NoSpeedAnywhere",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\"}],\n"
     " \"hosts\": [{\"name\": \"h\", \"switch\": \"s\"}]}",
     "f:2:12: hosts[0]: key \"gbps\" is missing, here and at the top of the file"},
    {"HostOnAHost",
     "{\"eflops-fabric\": 1, \"gbps\": 1, \"switches\": [],\n"
     " \"hosts\": [{\"name\": \"h\", \"switch\": \"k\"}, {\"name\": \"k\"}]}",
     "f:2:36: hosts[0].switch: \"k\" is a host, not a switch"},
    {"HostWithoutCable",
     "{\"eflops-fabric\": 1, \"gbps\": 1, \"switches\": [{\"name\": \"s\"}],\n"
     " \"hosts\": [{\"name\": \"h\", \"switch\": \"s\"},\n {\"name\": \"k\"}]}",
     "f:3:11: hosts[1].name: host \"k\" has no cable"},
    {"SwitchWithoutCable",
     "{\"eflops-fabric\": 1, \"gbps\": 1, \"switches\": [{\"name\": \"s\"},\n {\"name\": \"t\"}],\n"
     " \"hosts\": [{\"name\": \"h\", \"switch\": \"s\"}]}",
     "f:2:11: switches[1].name: switch \"t\" has no cable"},
    {"SwitchesApart",
     "{\"eflops-fabric\": 1, \"gbps\": 1, \"switches\": [{\"name\": \"s\"},\n {\"name\": \"t\"}, "
     "{\"name\": \"u\"}],\n \"hosts\": [{\"name\": \"h\", \"switch\": \"s\"}],\n"
     " \"cables\": [{\"a\": \"t\", \"b\": \"u\"}]}",
     "f:2:11: switches[1].name: switch \"t\" cannot be reached from any host"},
    {"SpeedOfNoCable",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\"}],\n"
     " \"hosts\": [{\"name\": \"h\", \"gbps\": 5}]}",
     "f:2:34: hosts[0].gbps: is of the cable to \"switch\", which is not given"},
    {"BadSide",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\",\n\"side\": \"M\"}], "
     "\"hosts\": []}",
     "f:2:9: switches[0].side: \"M\" is not \"U\" or \"L\""},
    {"BadTier",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\",\n\"tier\": 0}], "
     "\"hosts\": []}",
     "f:2:9: switches[0].tier: 0 is not a whole number from 1 to 255"},
    {"SomeIds",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\", \"id\": 0}],\n"
     " \"hosts\": [{\"name\": \"h\"}]}",
     "f:2:12: hosts[0]: all switches and hosts have an \"id\", or none of them has"},
    {"IdTwice",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\", \"id\": 0}],\n"
     " \"hosts\": [{\"name\": \"h\", \"id\": 0}]}",
     "f:2:21: hosts[0].name: id 0 is there twice"},
    {"IdMissing",
     "{\"eflops-fabric\": 1, \"switches\": [{\"name\": \"s\", \"id\": 0}],\n"
     " \"hosts\": [{\"name\": \"h\", \"id\": 2}]}",
     "f:2:21: hosts[0].name: id 2, but there is no id 1"},
    {"GeneratorUnknown", "{\"eflops-fabric\": 1,\n \"generate\": \"torus:k=3\"}",
     "f:2:14: generate: torus:k=3: not a kind of fabric, give one of bigraph, leafspine, fattree, "
     "single"},
    {"GeneratorAndCables",
     "{\"eflops-fabric\": 1, \"generate\": \"single:hosts=2\",\n \"cables\": "
     "[]}",
     "f:2:2: cables: does not go together with \"generate\""},
    {"GeneratorAsNumber", "{\"eflops-fabric\": 1, \"generate\": 4}",
     "f:1:34: generate: a number, not a string"},
    {"AddressOfNoHost",
     "{\"eflops-fabric\": 1, \"generate\": \"single:hosts=2\",\n"
     " \"hosts\": [{\"name\": \"sw0\", \"address\": \"10.0.0.1\"}]}",
     "f:2:21: hosts[0].name: \"sw0\" is no host of this fabric"},
    {"DownUnknown",
     "{\"eflops-fabric\": 1, \"generate\": \"single:hosts=2\",\n\"down\": [\"h0\", "
     "\"h5-sw0\"]}",
     "f:2:16: down[1]: \"h5-sw0\" is no switch, host or cable of this fabric"},
    {"NoObject", "{",
     "f:1:2: not JSON: syntax error while parsing object key - unexpected end of "
     "input; expected string literal"},
    {"TextBehind", "{\"eflops-fabric\": 1}\n}",
     "f:2:1: not JSON: syntax error while parsing value - unexpected '}'; expected end of input"},
    {"TooDeep", "{\"name\":\n[[[[[[[[[]]]]]]]]]}", "f:2:8: nested more than 8 deep"},
};
INSTANTIATE_TEST_SUITE_P(Files, BadFile, testing::ValuesIn(bad_files), name_of);

// The file of bigraph.json with one thing changed.
std::string broken_bigraph(const std::string& from, const std::string& to) {
    std::ifstream f("tests/data/fabric/bigraph.json");
    std::string text((std::istreambuf_iterator<char>(f)), {});
    const size_t at = text.find(from);
    if (at == std::string::npos) return "the test data has no " + from;
    return refusal(text.replace(at, from.size(), to));
}

TEST(FabricFile, RefusesABiGraphThatItsCablesDoNotFulfil) {
    const std::string no = "f:4:14: bigraph: no BiGraph of S=2 H=1 L=2: ";
    EXPECT_EQ(broken_bigraph("\"H\": 1", "\"H\": 2"),
              "f:4:14: bigraph: no BiGraph of S=2 H=2 L=2: switch \"north\" has 1 hosts");
    EXPECT_EQ(broken_bigraph("\"S\": 2", "\"S\": 4"),
              "f:4:14: bigraph: no BiGraph of S=4 H=1 L=2: side U has 2 switches");
    EXPECT_EQ(broken_bigraph("\"rails\": 1", "\"rails\": 2"),
              "f:4:14: bigraph: no BiGraph of 2 planes: the cables join the switches to 1");
    EXPECT_EQ(broken_bigraph("\"b\": \"east\", \"lanes\": 2", "\"b\": \"east\", \"lanes\": 1"),
              no + "1 cables between switch \"north\" and switch \"east\"");
    EXPECT_EQ(broken_bigraph("{\"a\": \"north\", \"b\": \"east\"",
                             "{\"a\": \"north\", \"b\": "
                             "\"south\""),
              no + "a cable joins switch \"north\" and switch \"south\" of one side");
}

// ---------------------------------------------------------------- files as such

class TemporaryFile {
public:
    explicit TemporaryFile(std::string_view content) {
        const int f = mkstemp(path_);
        if (f >= 0) close(f);
        std::ofstream(path_, std::ios::binary) << content;
    }
    ~TemporaryFile() { unlink(path_); }
    const char* path() const { return path_; }

private:
    char path_[32] = "/tmp/eflops-fabric-XXXXXX";
};

TEST(LoadFabric, TakesAGeneratorOrAFile) {
    const result<graph> g = load_fabric("leafspine:leaves=2,hosts=2,spines=2");
    ASSERT_TRUE(g.ok()) << g.why().text();
    const TemporaryFile f(write_fabric(*g));
    const result<graph> again = load_fabric(f.path());
    ASSERT_TRUE(again.ok()) << again.why().text();
    expect_same(*g, *again);
}

TEST(LoadFabric, SaysWhatElseItTakesWhenThereIsNoSuchFile) {
    EXPECT_EQ(load_fabric("no-such-file.json").why().text(),
              "no-such-file.json: No such file or directory; give a fabric file, or a generator "
              "such as bigraph:S=4,H=2 (eflops-fabric(5))");
    EXPECT_EQ(load_fabric("tests").why().text(), "tests: not a regular file");
    EXPECT_NE(load_fabric("torus:k=4").why().text().find("bigraph, leafspine, fattree, single"),
              std::string_view::npos);
}

TEST(LoadFabric, RefusesAFileWhoseFormatItDoesNotKnowByTheLineThatShowsIt) {
    EXPECT_EQ(refusal(""), "f:1: the file is empty");
    EXPECT_EQ(refusal("# words\n\n# more\n"), "f:4: the file is empty");
    EXPECT_EQ(refusal("# words\n\n  graph {\n a -- b\n}\n"),
              "f:3: \"graph {\" begins no fabric file: neither our JSON nor ibnetdiscover output "
              "nor Slurm's topology.conf");
}

TEST(LoadFabric, ReadsAFileInTheFormatThatIsAskedFor) {
    const result<graph> g =
        parse_fabric("f", "# Topology file:\nSwitchName=s Nodes=n[1-2]\n", file_format::slurm);
    EXPECT_TRUE(g.ok()) << g.why().text();
    const result<graph> h = parse_fabric("f", "SwitchName=s Nodes=n[1-2]\n", file_format::json);
    EXPECT_NE(h.why().text().find("f:1:1: not JSON"), std::string_view::npos) << h.why().text();
}

TEST(LoadFabric, RefusesAHundredThousandLinesOfGarbageAtOnceInOneLine) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    std::string garbage;
    for (int line = 0; line < 100'000; ++line) {
        for (int i = 0; i < 60; ++i) garbage += char(random() % 256);
        garbage += '\n';
    }
    // As it is, and behind a beginning that each of the formats likes.
    for (const std::string begin : {"", "{\"eflops-fabric\": 1, \"switches\": [", "SwitchName=s\n",
                                    "SwitchName=s Nodes=n[1-9]\n", "# Topology file: x\n",
                                    "Switch 4 \"S-0001\" # \"s\" lid 1\n"}) {
        const auto start = std::chrono::steady_clock::now();
        const result<graph> g = parse_fabric("f", begin + garbage);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        ASSERT_FALSE(g.ok());
        const std::string why(g.why().text());
        EXPECT_TRUE(why.starts_with("f:")) << why;
        EXPECT_LT(why.size(), 400u) << why;
        for (char c : why) EXPECT_TRUE(c >= ' ' && c <= '~');
        EXPECT_LT(took.count(), 2) << why;
    }
}

}  // namespace
