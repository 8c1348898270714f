#include "allreduce/calibrate.hpp"

#include <gtest/gtest.h>

namespace ef {
namespace {

using calibration::format;
using calibration::parse;

cost::machine_model example() {
    cost::machine_model m;
    m.intra = {310.5, 93.2, 0.021, 0.022};
    m.inter = {7900, 3500, 0.063, 0.075};
    m.gamma_ns_per_byte = 0.012;
    m.copy_ns_per_byte = 0.035;
    return m;
}

TEST(calibration_file, gives_back_what_was_written) {
    const std::string text = format(example(), "shm", "tcp:eth0", "");
    cost::machine_model m;
    ASSERT_TRUE(parse(text, {"host", "shm", "tcp:eth0"}, m)) << text;
    EXPECT_NEAR(m.intra.alpha_ns, 310.5, 0.1);
    EXPECT_NEAR(m.inter.recv_ns_per_byte, 0.075, 1e-4);
    EXPECT_NEAR(m.gamma_ns_per_byte, 0.012, 1e-4);
}

TEST(calibration_file, keeps_the_lines_of_media_that_this_job_did_not_measure) {
    const std::string before = format(example(), "shm", "tcp:eth0", "");
    cost::machine_model slower = example();
    slower.intra.alpha_ns = 999;
    const std::string after = format(slower, "shm", "", before);
    cost::machine_model m;
    ASSERT_TRUE(parse(after, {"host", "shm", "tcp:eth0"}, m)) << after;
    EXPECT_NEAR(m.intra.alpha_ns, 999, 0.1);
    EXPECT_NEAR(m.inter.alpha_ns, 7900, 0.1);
}

TEST(calibration_file, is_not_believed_if_a_medium_is_missing_or_a_number_is_no_number) {
    const std::string good = format(example(), "shm", "", "");
    for (const std::string& text :
         {std::string(), good.substr(0, good.size() / 2), std::string("host nan 1\nshm 1 1 1 1\n"),
          std::string("host 0.1 0.1\nshm -1 1 1 1\n"), std::string("host 0.1 0.1\nshm 1 1\n")}) {
        cost::machine_model m = example();
        m.intra.alpha_ns = 42;
        EXPECT_FALSE(parse(text, {"host", "shm"}, m)) << text;
        EXPECT_EQ(m.intra.alpha_ns, 42) << "a refused file left traces";
    }
    cost::machine_model m;
    EXPECT_FALSE(parse(good, {"host", "shm", "tcp:eth1"}, m));
}

}  // namespace
}  // namespace ef
