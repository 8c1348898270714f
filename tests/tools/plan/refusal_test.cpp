// What ef_plan does not accept: one line that names the object, and the exit status.
#include "tests/tools/plan/run.hpp"

namespace ef::planning {
namespace {

struct bad_case {
    std::vector<std::string> words;
    int status;
    const char* says;
};

class PlanRefuses : public testing::TestWithParam<bad_case> {};

TEST_P(PlanRefuses, WithOneLineThatNamesTheObject) {
    const outcome o = run(GetParam().words);
    EXPECT_EQ(o.status, GetParam().status) << o.err;
    EXPECT_EQ(o.out, "");
    const auto said = lines(o.err);
    ASSERT_EQ(said.size(), 1u) << o.err;
    EXPECT_TRUE(said[0].starts_with("ef_plan: ")) << said[0];
    EXPECT_NE(said[0].find(GetParam().says), std::string::npos) << said[0];
}

INSTANTIATE_TEST_SUITE_P(
    BadArguments, PlanRefuses,
    testing::Values(
        bad_case{{}, 2, "subcommand"},
        bad_case{{"draw", tiny}, 2, "\"draw\" is none of show, prove, price, compare, map"},
        bad_case{{"show"}, 2, "FABRIC"}, bad_case{{"show", tiny, "--bogus"}, 2, "--bogus"},
        bad_case{{"show", "bigraph:S=0,H=2"}, 2, "S"}, bad_case{{"show", "bigraph:X=4"}, 2, "X"},
        bad_case{{"show", "/nowhere/fabric.json"}, 1, "/nowhere/fabric.json"},
        bad_case{{"show", tiny, "--json", "--svg", "-"}, 2, "cannot share standard output"},
        bad_case{{"show", tiny, "--launcher", "srun"}, 2, "--launcher"},
        bad_case{{"show", tiny, tiny}, 2, "show: one FABRIC, not 2: bigraph:S=2,H=2 bigraph:"},
        bad_case{{"prove", tiny, "--ranks", "9"}, 2, "--ranks 9: bigraph S=2 H=2 L=1 has 8 hosts"},
        bad_case{{"prove", tiny, "--ranks", "0"}, 2, "--ranks"},
        bad_case{{"prove", tiny, "--ranks", "many"}, 2, "--ranks"},
        bad_case{{"prove", tiny, "--algorithm", "rign"}, 2, "\"rign\" is none of direct, "},
        bad_case{{"prove", tiny, "--algorithm", "hdrm", "--collective", "broadcast"},
                 2,
                 "hdrm: does not serve broadcast on these 8 ranks of bigraph S=2 H=2 L=1"},
        bad_case{{"prove", tiny, "--collective", "alltoall"},
                 2,
                 "\"alltoall\" is none of allreduce, reduce_scatter, allgather, broadcast"},
        bad_case{{"prove", tiny, "--routing", "best"}, 2, "\"best\" is none of ecmp, static"},
        bad_case{{"prove", tiny, "--order", "sideways"}, 2, "--order sideways: neither hdrm"},
        bad_case{{"prove", tiny, "--subflows", "0"}, 2, "--subflows"},
        bad_case{{"prove", tiny, "--fail", "U0-U1"}, 2, "--fail U0-U1: bigraph S=2 H=2 L=1 has no"},
        bad_case{{"prove", tiny, "--fail", "U0p0"}, 2, "--fail U0p0: is a host; name its link, "},
        bad_case{
            {"prove", tiny, "--place", "/nowhere/hosts"}, 1, "--place /nowhere/hosts: No such"},
        bad_case{{"price", tiny, "--sizes", "8:4"}, 2, "LAST is smaller than FIRST"},
        bad_case{{"price", tiny, "--sizes", "0"}, 2, "1 byte or more"},
        bad_case{{"price", tiny, "--alpha-us", "-1"}, 2, "--alpha-us"},
        bad_case{{"compare"}, 2, "give a FABRIC, or --all"},
        bad_case{{"compare", "--all", tiny}, 2, "not both"},
        bad_case{{"compare", "4"}, 2, "\"4\" is not S,H or S,H,L"},
        bad_case{{"compare", "4,0"}, 2, "\"4,0\" is not S,H or S,H,L"},
        bad_case{{"compare", "4,3"}, 2, "powers of two"},
        bad_case{{"compare", "fattree:k=4"}, 2, "fattree k=4 is no BiGraph"},
        bad_case{{"compare", tiny, "--skew-us", "5"}, 2, "need a --policy other than step"},
        bad_case{{"map", tiny, "--launcher", "torque"}, 2, "\"torque\" is none of openmpi, "},
        bad_case{{"map", tiny, "--algorithm", "tree"}, 2, "\"tree\" is none of hdrm, ring"},
        bad_case{{"show", tiny, "--svg", "/nowhere/x.svg"}, 1, "--svg /nowhere/x.svg: No such"}));

TEST(PlanFiles, AreRefusedWithTheLineAndTheReason) {
    const auto place = [](const std::string& text) {
        const temporary file(text);
        const outcome o = run({"prove", tiny, "--place", file.name()});
        EXPECT_EQ(o.status, 1);
        EXPECT_EQ(lines(o.err).size(), 1u);
        return o.err;
    };
    EXPECT_NE(place("").find("names nothing"), std::string::npos);
    EXPECT_NE(place("U0p0\n\nU9p9\n").find("line 3: bigraph S=2 H=2 L=1 has no host \"U9p9\""),
              std::string::npos);
    EXPECT_NE(place("rank x=U0p0\n").find("line 1: \"rank x=U0p0\" is not \"rank N=HOST slot=N\""),
              std::string::npos);
    EXPECT_NE(place("rank 0=U0p0\nrank 0=U0p1\n").find("line 2: rank 0 is on line 1 already"),
              std::string::npos);
    EXPECT_NE(place("rank 5=U0p0\n").find("line 1: rank 5 of 1 ranks"), std::string::npos);
    const auto order = [](const std::string& text) {
        const temporary file(text);
        const outcome o = run({"prove", "bigraph:S=1,H=1", "--order", file.name()});
        EXPECT_EQ(o.status, 1);
        EXPECT_EQ(lines(o.err).size(), 1u);
        return o.err;
    };
    EXPECT_NE(order("0\n2\n").find("line 2: \"2\" is not a rank, 0 .. 1"), std::string::npos);
    EXPECT_NE(order("1\n1\n").find("line 2: rank 1 is on line 1 already"), std::string::npos);
    EXPECT_NE(order("1\n").find("names 1 of 2 ranks"), std::string::npos);
}

}  // namespace
}  // namespace ef::planning
