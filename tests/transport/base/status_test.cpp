#include "transport/base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <thread>

namespace ef {
namespace {

TEST(status, costs_one_null_pointer_when_there_is_nothing_to_say) {
    EXPECT_EQ(sizeof(status), sizeof(void*));
    EXPECT_TRUE(status().ok());
    EXPECT_EQ(status().in("anywhere").code(), EF_OK);
    EXPECT_EQ(status().text(), "");
}

TEST(status, gathers_context_in_front_of_the_sentence) {
    const status s = status(EF_PEER_LOST, "rank 3 died").in("round 4").in("allreduce");
    EXPECT_EQ(s.code(), EF_PEER_LOST);
    EXPECT_EQ(s.text(), "allreduce: round 4: rank 3 died");
    const status copy = s;
    EXPECT_EQ(copy.text(), s.text());
}

TEST(status, names_the_call_and_the_errno_of_a_system_error) {
    const status s = system_error("open of /no/such", ENOENT);
    EXPECT_EQ(s.code(), EF_SYSTEM);
    EXPECT_NE(s.text().find("open of /no/such: No such file or directory (errno 2)"),
              std::string::npos)
        << s.text();
    EXPECT_EQ(system_error("x", EMFILE).code(), EF_NO_RESOURCE);
    EXPECT_NE(system_error("x", EMFILE).text().find("RLIMIT_NOFILE"), std::string::npos);
    EXPECT_EQ(system_error("x", ENOMEM).code(), EF_NO_MEMORY);
}

TEST(status, of_a_failed_call_is_kept_for_its_own_thread) {
    EXPECT_EQ(guard([] { return status(EF_INVALID, "here"); }), EF_INVALID);
    std::string other = "unset";
    std::thread([&] { other = ef_last_error(); }).join();
    EXPECT_EQ(other, "");
    EXPECT_STREQ(ef_last_error(), "here");
    EXPECT_EQ(guard([] { return status(); }), EF_OK);
    EXPECT_STREQ(ef_last_error(), "here");
}

TEST(status, turns_a_failed_allocation_into_a_code) {
    EXPECT_EQ(guard([]() -> status { throw std::bad_alloc(); }), EF_NO_MEMORY);
    EXPECT_STREQ(ef_last_error(), "out of memory");
}

TEST(status, has_a_name_for_every_code) {
    for (ef_status_t c :
         {EF_OK, EF_IN_PROGRESS, EF_INVALID, EF_UNSUPPORTED, EF_NO_MEMORY, EF_NO_RESOURCE,
          EF_PEER_LOST, EF_TIMEOUT, EF_ABORTED, EF_AUTH_FAILED, EF_MISMATCH, EF_SYSTEM})
        EXPECT_TRUE(std::string(ef_status_name(c)).starts_with("EF_")) << c;
    EXPECT_STREQ(ef_status_name(ef_status_t(-1000)), "unknown status");
}

}  // namespace
}  // namespace ef
