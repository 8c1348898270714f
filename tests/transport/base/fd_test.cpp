#include "transport/base/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ef {
namespace {

bool is_open(int n) { return fcntl(n, F_GETFD) >= 0; }

int exit_of_child(auto&& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int how = 0;
    waitpid(child, &how, 0);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

TEST(fd, closes_itself_once) {
    int p[2];
    ASSERT_EQ(pipe2(p, O_CLOEXEC), 0);
    {
        fd a(p[0]);
        fd b(std::move(a));
        EXPECT_FALSE(a);
        EXPECT_EQ(b.get(), p[0]);
    }
    EXPECT_FALSE(is_open(p[0]));
    fd c(p[1]);
    EXPECT_EQ(c.release(), p[1]);
    EXPECT_TRUE(is_open(p[1]));
    close(p[1]);
}

// A child that kept a socket of ours open would hide our death from the peers.
TEST(fd, is_let_go_by_a_forked_child_and_kept_by_the_parent) {
    int p[2];
    ASSERT_EQ(pipe2(p, O_CLOEXEC), 0);
    fd ours(p[0]);
    const unsigned before = fork_generation();
    EXPECT_EQ(
        exit_of_child([&] {
            return is_open(p[0]) ? 1 : !is_open(p[1]) ? 2 : fork_generation() == before ? 3 : 0;
        }),
        0);
    EXPECT_TRUE(is_open(p[0]));
    EXPECT_EQ(fork_generation(), before);
    close(p[1]);
}

// In the child the number may belong to a file of the application by the time our object is
// destroyed.
TEST(fd, of_the_parent_closes_nothing_in_a_child) {
    int p[2];
    ASSERT_EQ(pipe2(p, O_CLOEXEC), 0);
    fd ours(p[0]);
    EXPECT_EQ(exit_of_child([&] {
                  const int again = dup(p[1]);  // takes the lowest free number, which was ours
                  if (again != p[0]) return 1;
                  ours.reset();
                  return is_open(again) ? 0 : 2;
              }),
              0);
    close(p[1]);
}

}  // namespace
}  // namespace ef
