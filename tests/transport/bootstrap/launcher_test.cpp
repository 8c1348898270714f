#include "transport/bootstrap/launcher.hpp"

#include "transport/bootstrap/key.hpp"
#include "transport/bootstrap/kvs.hpp"
#include "transport/bootstrap/slurm.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

namespace ef {
namespace {

/// An environment in which no launcher is seen and HOME is an empty folder of this test's.
class Launcher : public testing::Test {
protected:
    void SetUp() override {
        for (const char* v :
             {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK", "PMI_SIZE",
              "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "RANK",
              "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_NTASKS",
              "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "XDG_CONFIG_HOME"})
            unsetenv(v);
        char folder[] = "/tmp/eflops-launcher-XXXXXX";
        ASSERT_NE(mkdtemp(folder), nullptr);
        home_ = folder;
        setenv("HOME", folder, 1);
    }
    void TearDown() override {
        unlink((home_ + "/.config/eflops/key").c_str());
        unlink((home_ + "/key").c_str());
        rmdir((home_ + "/.config/eflops").c_str());
        rmdir((home_ + "/.config").c_str());
        EXPECT_EQ(rmdir(home_.c_str()), 0) << "something was left in " << home_;
    }
    static void set(std::initializer_list<std::pair<const char*, const char*>> vars) {
        for (const auto& [name, value] : vars) setenv(name, value, 1);
    }
    static void expect_invalid(const result<launch>& l, const char* words) {
        ASSERT_FALSE(l.ok());
        EXPECT_EQ(l.why().code(), EF_INVALID);
        EXPECT_NE(l.why().text().find(words), std::string_view::npos) << l.why().text();
    }
    std::string home_;
    config c_;
};

TEST_F(Launcher, IsAloneWithARandomKeyWhenNothingStartedIt) {
    result<launch> a = detect_launch(-1, -1, 0, c_), b = detect_launch(-1, -1, 0, c_);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->source, "alone");
    EXPECT_EQ(a->nranks, 1);
    EXPECT_NE(a->key, b->key);
}

TEST_F(Launcher, TakesExplicitArgumentsBeforeAllElse) {
    set({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
    c_.root = "127.0.0.1:7000";
    c_.key = "sixteen or more of them";
    result<launch> l = detect_launch(3, 4, 0, c_);
    ASSERT_TRUE(l.ok()) << l.why().text();
    EXPECT_EQ(l->source, "explicit");
    EXPECT_EQ(l->rank, 3);
    EXPECT_EQ(l->root, "127.0.0.1:7000");
    expect_invalid(detect_launch(3, -1, 0, c_), "give both");
    expect_invalid(detect_launch(4, 4, 0, c_), "rank 4 of 4");
    c_.root.clear();
    expect_invalid(detect_launch(1, 4, 0, c_), "EFLOPS_ROOT");
}

TEST_F(Launcher, ReadsTheEnvironment) {
    c_.rank = 1;
    expect_invalid(detect_launch(-1, -1, 0, c_), "EFLOPS_NRANKS is not");
    c_.nranks = 3;
    c_.root = "h:1";
    result<launch> l = detect_launch(-1, -1, 0, c_);
    ASSERT_TRUE(l.ok()) << l.why().text();
    EXPECT_EQ(l->source, "environment");
    EXPECT_EQ(l->nranks, 3);
}

TEST_F(Launcher, ReadsTorchrunAndListensBesideItsStore) {
    set({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}});
    expect_invalid(detect_launch(-1, -1, 0, c_), "MASTER_PORT");
    set({{"MASTER_PORT", "29500"}});
    result<launch> a = detect_launch(-1, -1, 0, c_), b = detect_launch(-1, -1, 0, c_);
    ASSERT_TRUE(a.ok() && b.ok()) << a.why().text();
    EXPECT_EQ(a->source, "torchrun");
    EXPECT_EQ(a->rank, 2);
    EXPECT_EQ(a->root, "node1:29501");
    EXPECT_EQ(b->sequence, a->sequence + 1);
    EXPECT_EQ(a->key, b->key);
    set({{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "65535"}});
    EXPECT_EQ(detect_launch(-1, -1, 0, c_)->root, "[::1]:65534");
    set({{"RANK", "four"}});
    expect_invalid(detect_launch(-1, -1, 0, c_), "RANK=four is not a number");
}

TEST_F(Launcher, ReadsSlurmsStepAndNotItsBatchScript) {
    set({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
    EXPECT_EQ(detect_launch(-1, -1, 0, c_)->source, "alone");
    set({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NODELIST", "n[07-09,12],m3"}});
    result<launch> l = detect_launch(-1, -1, 0, c_);
    ASSERT_TRUE(l.ok()) << l.why().text();
    EXPECT_EQ(l->source, "slurm");
    EXPECT_EQ(l->rank, 5);
    EXPECT_EQ(l->nranks, 8);
    EXPECT_EQ(l->root.substr(0, 4), "n07:");
}

TEST(SlurmHosts, AreReadAsFarAsTheFirst) {
    EXPECT_EQ(*first_slurm_host("a"), "a");
    EXPECT_EQ(*first_slurm_host("a,b"), "a");
    EXPECT_EQ(*first_slurm_host("r[1-2]n[03-05]-ib,x"), "r1n03-ib");
    EXPECT_FALSE(first_slurm_host("").ok());
    EXPECT_FALSE(first_slurm_host("n[1-").ok());
}

TEST_F(Launcher, ReadsOpenMpiWithoutPmixOnOneHostOnly) {
    set({{"OMPI_COMM_WORLD_RANK", "1"},
         {"OMPI_COMM_WORLD_SIZE", "2"},
         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
    result<launch> l = detect_launch(-1, -1, 0, c_);
    ASSERT_TRUE(l.ok()) << l.why().text();
    EXPECT_EQ(l->source, "openmpi");
    EXPECT_EQ(l->root.substr(0, 10), "127.0.0.1:");
    set({{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
    EXPECT_EQ(detect_launch(-1, -1, 0, c_).why().code(), EF_UNSUPPORTED);
}

TEST_F(Launcher, RefusesShortKeysAndKeyFilesThatOthersCanRead) {
    c_.root = "h:1";
    c_.key = "short";
    expect_invalid(detect_launch(0, 2, 0, c_), "5 characters");
    c_.key.clear();
    c_.key_file = home_ + "/key";
    expect_invalid(detect_launch(0, 2, 0, c_), "No such file");
    std::ofstream(c_.key_file) << "0123456789abcdef\n";
    chmod(c_.key_file.c_str(), 0640);
    expect_invalid(detect_launch(0, 2, 0, c_), "mode 0640");
    chmod(c_.key_file.c_str(), 0600);
    result<launch> file = detect_launch(0, 2, 0, c_);
    ASSERT_TRUE(file.ok()) << file.why().text();
    c_.key_file.clear();
    c_.key = "0123456789abcdef";
    EXPECT_EQ(detect_launch(0, 2, 0, c_)->key, file->key);
}

TEST_F(Launcher, MakesOneKeyFileForRanksThatStartTogether) {
    constexpr int nranks = 8;
    std::barrier start(nranks);
    std::vector<std::string> keys(nranks);
    std::vector<std::thread> threads;
    for (int i = 0; i < nranks; ++i)
        threads.emplace_back([&, i] {
            start.arrive_and_wait();
            result<std::string> k = user_key();
            ASSERT_TRUE(k.ok()) << k.why().text();
            keys[size_t(i)] = *k;
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 1u);
    EXPECT_EQ(keys[0].size(), 64u);
    struct stat st {};
    ASSERT_EQ(stat((home_ + "/.config/eflops/key").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0600u);
}

TEST_F(Launcher, SaysWhatToSetWhenThereIsNoHome) {
    unsetenv("HOME");
    c_.root = "h:1";
    expect_invalid(detect_launch(0, 2, 0, c_), "set EFLOPS_KEY or EFLOPS_KEY_FILE");
    setenv("HOME", home_.c_str(), 1);
}

/// The process manager's side of PMI-1 for one rank that is alone in its barrier.
void serve_pmi(int socket, std::vector<std::string>& heard) {
    std::string in, value;
    for (char c; read(socket, &c, 1) == 1;) {
        if (c != '\n') {
            in += c;
            continue;
        }
        heard.push_back(in);
        std::string out;
        const auto is = [&](const char* cmd) {
            return in.rfind(std::string("cmd=") + cmd, 0) == 0;
        };
        if (is("init")) out = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
        else if (is("get_my_kvsname")) out = "cmd=my_kvsname kvsname=kvs_1\n";
        else if (is("get_maxes")) out = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
        else if (is("put")) {
            value = in.substr(in.find("value=") + 6);
            out = "cmd=put_result rc=0 msg=success\n";
        } else if (is("barrier_in")) out = "cmd=barrier_out\n";
        else if (is("get ") && in.find("key=none") != std::string::npos)
            out = "cmd=get_result rc=-1 msg=key_none_not_found value=unknown\n";
        else if (is("get ")) out = "cmd=get_result rc=0 msg=success value=" + value + "\n";
        in.clear();
        for (const char& one : out) (void)!write(socket, &one, 1);  // in the smallest pieces
    }
}

TEST_F(Launcher, SpeaksPmiWithItsManager) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::vector<std::string> heard;
    std::thread manager([&] { serve_pmi(ends[1], heard); });
    set({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});
    {
        result<std::shared_ptr<kvs>> p = pmi_client(ends[0], deadline::in_ms(5000));
        ASSERT_TRUE(p.ok()) << p.why().text();
        EXPECT_EQ((*p)->rank(), 1);
        EXPECT_EQ((*p)->nranks(), 3);
        EXPECT_TRUE((*p)->put("root", "127.0.0.1:5").ok());
        result<std::string> v = (*p)->get("root", deadline::in_ms(5000));
        ASSERT_TRUE(v.ok()) << v.why().text();
        EXPECT_EQ(*v, "127.0.0.1:5");
        EXPECT_EQ((*p)->get("none", deadline::in_ms(5000)).why().code(), EF_SYSTEM);
        shutdown(ends[0], SHUT_WR);
    }
    manager.join();
    EXPECT_EQ(heard[0], "cmd=init pmi_version=1 pmi_subversion=1");
    close(ends[0]);
    close(ends[1]);
}

TEST_F(Launcher, TimesOutOnASilentPmiManager) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    EXPECT_EQ(pmi_client(ends[0], deadline::in_ms(50)).why().code(), EF_TIMEOUT);
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace ef
