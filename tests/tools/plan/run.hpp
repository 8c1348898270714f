// run: ef_plan inside the test program, with what it prints and how it ends.
#pragma once

#include "perftests/common/exit_code.hpp"
#include "tools/plan/commands.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ef::planning {

struct outcome {
    int status;
    std::string out, err;
    json parsed() const { return json::parse(out); }
};

inline outcome run(std::vector<std::string> words) {
    words.insert(words.begin(), "ef_plan");
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    outcome o;
    o.status = plan_main(int(argv.size()), argv.data());
    o.out = testing::internal::GetCapturedStdout();
    o.err = testing::internal::GetCapturedStderr();
    return o;
}

/// A file that is removed again.
class temporary {
public:
    explicit temporary(const std::string& text = {}) {
        close(mkstemp(name_));
        std::ofstream(name_) << text;
    }
    ~temporary() { std::remove(name_); }
    std::string name() const { return name_; }
    std::string text() const {
        std::ifstream in(name_);
        std::stringstream all;
        all << in.rdbuf();
        return all.str();
    }

private:
    char name_[32] = "/tmp/ef_plan_test.XXXXXX";
};

inline std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string l; std::getline(in, l);) all.push_back(l);
    return all;
}

inline const std::string tiny = "bigraph:S=2,H=2";  // 8 hosts

}  // namespace ef::planning
