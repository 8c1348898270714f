#include "transport/base/config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace ef {
namespace {

// Environment for one test, put back afterwards.
class environment {
public:
    void set(const char* name, const char* value) {
        setenv(name, value, 1);
        names_.push_back(name);
    }
    ~environment() {
        for (const char* n : names_) unsetenv(n);
    }

private:
    std::vector<const char*> names_;
};

std::vector<std::string> lines;
void keep_line(void*, ef_log_level_t, const char* line) { lines.emplace_back(line); }

// First, since the warning comes once per process.
TEST(config, warns_of_an_unknown_variable_and_names_the_nearest) {
    environment e;
    e.set("EFLOPS_TIMEOUT", "5");
    ef_set_logger(keep_line, nullptr);
    ASSERT_TRUE(read_config().ok());
    ASSERT_TRUE(read_config().ok());
    ef_set_logger(nullptr, nullptr);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("EFLOPS_TIMEOUT_MS"), std::string::npos) << lines[0];
}

TEST(config, takes_its_defaults_from_the_table_when_nothing_is_set) {
    const result<config> c = read_config();
    ASSERT_TRUE(c.ok()) << c.why().text();
    EXPECT_EQ(c->timeout_ms, 60000);
    EXPECT_EQ(c->transport, "auto");
    EXPECT_EQ(c->rank, -1);
    EXPECT_EQ(c->log, "warn");
}

TEST(config, lets_the_environment_beat_the_default_and_treats_empty_as_unset) {
    environment e;
    e.set("EFLOPS_TIMEOUT_MS", "250");
    e.set("EFLOPS_TRANSPORT", "");
    const result<config> c = read_config();
    ASSERT_TRUE(c.ok()) << c.why().text();
    EXPECT_EQ(c->timeout_ms, 250);
    EXPECT_EQ(c->transport, "auto");
}

TEST(config, refuses_a_bad_value_and_says_what_is_accepted) {
    const struct {
        const char *name, *value, *accepted;
    } bad[] = {
        {"EFLOPS_TIMEOUT_MS", "0", "1 to 86400000"},
        {"EFLOPS_TIMEOUT_MS", "5s", "1 to 86400000"},
        {"EFLOPS_TRANSPORT", "rdma", "auto, shm, tcp or verbs"},
        {"EFLOPS_CHUNK_BYTES", "12", "1024"},
        {"EFLOPS_RANK", "-1", "0 or more"},
        {"EFLOPS_LOG", "verbose", "debug"},
    };
    for (const auto& b : bad) {
        environment e;
        e.set(b.name, b.value);
        const result<config> c = read_config();
        ASSERT_FALSE(c.ok()) << b.name << "=" << b.value;
        EXPECT_EQ(c.why().code(), EF_INVALID);
        const std::string text(c.why().text());
        EXPECT_NE(text.find(b.name), std::string::npos) << text;
        EXPECT_NE(text.find(b.value), std::string::npos) << text;
        EXPECT_NE(text.find(b.accepted), std::string::npos) << text;
    }
}

TEST(config, names_every_variable_once_with_words_for_people) {
    // Room for what the transports that are still to come need; each one has to be measured.
    EXPECT_LE(config_table().size(), 28u);
    for (const config_variable& v : config_table()) {
        EXPECT_TRUE(std::string(v.name).starts_with("EFLOPS_")) << v.name;
        EXPECT_STRNE(v.accepted, "") << v.name;
        EXPECT_STRNE(v.meaning, "") << v.name;
        config c;
        if (!*v.fallback) continue;
        EXPECT_TRUE(set_config(c, v.name, v.fallback).ok()) << v.name;
    }
    config c;
    EXPECT_EQ(set_config(c, "EFLOPS_NO_SUCH", "1").code(), EF_INVALID);
}

}  // namespace
}  // namespace ef
