// contest: the contenders' processes, and turns among them.
#pragma once

#include "perftests/compare/protocol.hpp"

#include <map>
#include <string>
#include <vector>

namespace compare {

struct row {
    uint64_t bytes = 0;
    struct entry {
        std::string name;
        std::vector<double> us;  // per turn
        uint32_t wrong = 0;
        uint32_t iterations = 0;  // per turn
        uint64_t read = 0, written = 0;
        std::string plan;
    };
    std::vector<entry> entries;  // only those that ran
};

class contest {
public:
    int nranks = 2;
    int turns = 7;
    std::vector<uint64_t> sizes;
    std::string folder;  // exists; for the socket

    ~contest() { kill_all(); }
    void add(std::string name, std::string command) {
        players_.push_back({std::move(name), std::move(command), -1, {}, {}, {}});
    }
    /// Start all and wait until all their ranks have come; who does not come in time is named and
    /// left out.
    bool start();
    /// Turns at one size. No entries if the machine has not the memory for it.
    row measure(uint64_t bytes);
    void stop();
    /// Who was left out, and why.
    std::map<std::string, std::string> left_out() const;
    /// Only kills and waits: may be called from a signal handler.
    void kill_all() noexcept;

private:
    struct player {
        std::string name, command;
        int group;               // process group; -1: none
        std::vector<int> ranks;  // sockets by rank
        std::vector<int> pids;   // of the ranks: launchers put them into groups of their own
        std::string out;         // why it is out; empty: it plays
    };

    static void kill_ranks(player& p) noexcept;
    bool enough_memory(uint64_t bytes) const;
    void launch(player& p);
    void welcome(int listener);
    bool all_here() const;
    void drop(player& p, const std::string& why);
    bool order_all(player& p, const command& c, std::vector<answer>& answers, int timeout_ms);
    double block_us(player& p, uint64_t bytes, uint32_t iterations);

    std::vector<player> players_;
    std::string path_;
};

}  // namespace compare
