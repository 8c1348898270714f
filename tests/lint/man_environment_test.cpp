// eflops(7) lists exactly the configuration table: the same variables in the same order, each with
// the values it accepts and its default. Read from the top of the tree, as `make check` runs.
#include "transport/base/config.hpp"

#include <gtest/gtest.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct entry {
    std::string name;
    std::string text;  // one line, macros taken out
};

// The `.It Ev NAME` items of ENVIRONMENT.
std::vector<entry> documented() {
    std::vector<entry> items;
    std::ifstream page("man/eflops.7");
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with(".Sh ")) inside = line == ".Sh ENVIRONMENT";
        if (!inside) continue;
        if (line.starts_with(".It Ev ")) {
            items.push_back({line.substr(7), ""});
        } else if (line.starts_with(".El")) {
            inside = false;
        } else if (!items.empty()) {
            std::istringstream words(line);
            for (std::string word; words >> word;) {
                if (word.size() == 3 && word[0] == '.') continue;  // a macro
                if (word == ".") {
                    items.back().text += ".";
                } else {
                    items.back().text += " " + word;
                }
            }
        }
    }
    return items;
}

TEST(EnvironmentPage, ListsTheVariablesOfTheConfigurationTableInOrder) {
    const std::vector<entry> items = documented();
    std::vector<std::string> on_page, in_table;
    for (const entry& e : items) on_page.push_back(e.name);
    for (const ef::config_variable& v : ef::config_table()) in_table.push_back(v.name);
    EXPECT_EQ(on_page, in_table);
}

TEST(EnvironmentPage, SaysWhatEachVariableAcceptsAndItsDefault) {
    const std::vector<entry> items = documented();
    for (const ef::config_variable& v : ef::config_table()) {
        SCOPED_TRACE(v.name);
        const entry* found = nullptr;
        for (const entry& e : items)
            if (e.name == v.name) found = &e;
        ASSERT_NE(found, nullptr) << "not in man/eflops.7";
        EXPECT_NE(found->text.find(std::string("Accepts ") + v.accepted + "."), std::string::npos)
            << found->text;
        const std::string fallback = *v.fallback ? v.fallback : "unset";
        EXPECT_TRUE(found->text.ends_with("Default: " + fallback + ".")) << found->text;
    }
}

}  // namespace
