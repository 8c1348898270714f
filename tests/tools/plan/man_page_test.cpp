// ef_plan(1) lists the options of every command, and its examples print what it says.
#include "tests/tools/plan/run.hpp"

#include <map>
#include <regex>
#include <set>

namespace ef::planning {
namespace {

std::set<std::string> matches(const std::string& text, const char* pattern) {
    std::set<std::string> all;
    const std::regex r(pattern, std::regex::multiline);
    for (std::sregex_iterator i(text.begin(), text.end(), r), end; i != end; ++i)
        all.insert((*i)[1].str());
    return all;
}

TEST(PlanManPage, ListsTheOptionsOfEveryCommand) {
    std::ifstream in("man/ef_plan.1");
    ASSERT_TRUE(in) << "run from the top of the tree";
    std::stringstream page;
    page << in.rdbuf();
    std::set<std::string> in_help;
    for (const char* c : {"show", "prove", "price", "compare", "map"})
        in_help.merge(matches(run({c, "--help"}).out, "^  (?:-\\w,)?--([a-z-]+)"));
    in_help.merge(matches(run({"--help"}).out, "^  (?:-\\w,)?--([a-z-]+)"));
    EXPECT_GT(in_help.size(), 20u);
    EXPECT_EQ(in_help, matches(page.str(), "^\\.It (?:Fl \\w , )?Fl -([a-z-]+)"));
}

TEST(PlanManPage, SaysWhichCommandsHaveAnOption) {
    std::ifstream in("man/ef_plan.1");
    ASSERT_TRUE(in) << "run from the top of the tree";
    std::stringstream page;
    page << in.rdbuf();
    const std::vector<std::string> commands = {"show", "prove", "price", "compare", "map"};
    std::map<std::string, std::set<std::string>> said;  // option -> commands
    std::string option;
    const std::regex item("^\\.It (?:Fl \\w , )?Fl -([a-z-]+)"), word("[a-z]+");
    std::smatch m;
    for (const std::string& l : lines(page.str())) {
        if (std::regex_search(l, m, item)) option = m[1];
        if (l.starts_with(".Sh")) option.clear();
        if (option.empty()) continue;
        auto& list = said[option];
        if (!l.starts_with(".Pq ")) continue;
        const std::string names = l.substr(l.find("Cm ") + 3);
        const bool but = l.find("all but") != std::string::npos;
        std::set<std::string> named;
        for (std::sregex_iterator i(names.begin(), names.end(), word), end; i != end; ++i)
            named.insert(i->str());
        for (const std::string& c : commands)
            if (named.count(c) != size_t(but)) list.insert(c);
    }
    for (const char* general : {"json"}) said[general] = {commands.begin(), commands.end()};
    for (const std::string& c : commands) {
        std::set<std::string> in_page;
        for (const auto& [name, list] : said)
            if (list.count(c)) in_page.insert(name);
        std::set<std::string> in_help = matches(run({c, "--help"}).out, "^  (?:-\\w,)?--([a-z-]+)");
        in_help.erase("help");
        in_help.erase("help-all");
        EXPECT_EQ(in_help, in_page) << c;
    }
}

/// The commands of EXAMPLES with what the page says that they print. Lines are joined where the page
/// breaks them with a backslash.
std::vector<std::pair<std::string, std::string>> examples(const std::string& page) {
    std::vector<std::pair<std::string, std::string>> found;
    bool literal = false, here = false;
    std::string joined;
    for (std::string l : lines(page.substr(page.find(".Sh EXAMPLES")))) {
        if (l.starts_with(".Bd -literal")) literal = true;
        else if (l == ".Ed") literal = here = false;
        if (!literal || l.starts_with(".Bd")) continue;
        if (!joined.empty()) l = joined + l.substr(l.find_first_not_of(' '));
        joined.clear();
        if (l.ends_with("\\e")) {
            joined = l.substr(0, l.size() - 2);
            continue;
        }
        if (l.starts_with("$ ")) {
            here = l.starts_with("$ ef_plan ") && l.find_first_of("|>") == std::string::npos;
            if (here) found.emplace_back(l.substr(10), "");
        } else if (here) {
            found.back().second += l + "\n";
        }
    }
    return found;
}

TEST(PlanManPage, PrintsWhatTheCommandsOfItsExamplesPrint) {
    std::ifstream in("man/ef_plan.1");
    ASSERT_TRUE(in) << "run from the top of the tree";
    std::stringstream page;
    page << in.rdbuf();
    const auto all = examples(page.str());
    EXPECT_GE(all.size(), 5u);
    for (const auto& [command, printed] : all) {
        const temporary svg;
        std::vector<std::string> words;
        std::istringstream split(command);
        for (std::string w; split >> w;) words.push_back(w == "fabric.svg" ? svg.name() : w);
        EXPECT_EQ(run(words).out, printed) << command;
    }
}

}  // namespace
}  // namespace ef::planning
