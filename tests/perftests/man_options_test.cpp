// A program's --help and its manual page list the same options. Run from the top of the tree.
#include "perftests/common/options.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace ef::perf {
namespace {

class ManPage : public testing::TestWithParam<kind> {};

std::set<std::string> matches(const std::string& text, const char* pattern) {
    std::set<std::string> all;
    const std::regex r(pattern, std::regex::multiline);
    for (std::sregex_iterator i(text.begin(), text.end(), r), end; i != end; ++i)
        all.insert((*i)[1].str());
    return all;
}

TEST_P(ManPage, ListsTheOptionsOfTheProgram) {
    const collective& what = find_collective(GetParam());
    char name[] = "program", help[] = "--help";
    char* argv[] = {name, help};
    options o;
    testing::internal::CaptureStdout();
    const auto end = parse_options(2, argv, what, o);
    const std::string text = testing::internal::GetCapturedStdout();
    ASSERT_EQ(end, 0);

    std::ifstream in(std::string("man/") + what.program + ".1");
    ASSERT_TRUE(in) << "man/" << what.program << ".1";
    std::stringstream page;
    page << in.rdbuf();

    const auto in_help = matches(text, "^  (?:-\\w,)?--([a-z-]+)");
    const auto in_page = matches(page.str(), "^\\.It (?:Fl \\w , )?Fl -([a-z-]+)");
    EXPECT_GT(in_help.size(), 10u);
    EXPECT_EQ(in_help, in_page);
}

INSTANTIATE_TEST_SUITE_P(Programs, ManPage,
                         testing::Values(kind::allreduce, kind::reduce_scatter, kind::allgather,
                                         kind::broadcast, kind::barrier, kind::sendrecv),
                         [](const auto& k) { return find_collective(k.param).name; });

}  // namespace
}  // namespace ef::perf
