#include "perftests/p2p/program.hpp"

#include "perftests/common/spawn.hpp"
#include "perftests/p2p/ends.hpp"

#include <algorithm>

namespace ef::perf::p2p {
namespace {

/// "host:port"; an IPv6 address gets its brackets.
std::string address_of(const p2p_options& o) {
    const bool v6 = o.host.find(':') != std::string::npos && o.host.front() != '[';
    return v6 ? fmt::format("[{}]:{}", o.host, o.port) : fmt::format("{}:{}", o.host, o.port);
}

/// --self: the client is rank 0, whose words and status count; the server is the other child.
int run_both(const test& what, const p2p_options& o) {
    const auto grace_ms = unsigned(std::min(4e9, o.timeout_s * 1000 + 5000));
    constexpr int server_rank = 1;
    const machine_facts machine = read_machine();  // before its cores are taken
    return run_local(
        what.program, 2, grace_ms,
        [&](const seat& s) {
            const std::vector<int>& cores = machine.cores;
            if (o.pin && cores.size() >= 2) bind_to_core(cores[size_t(s.rank)]);
            if (s.rank != server_rank) return run_client(what, o, machine, s.root, s.key.c_str());
            p2p_options bare;  // it learns the rest
            bare.timeout_s = o.timeout_s;
            return run_server(what, bare, s.listen_fd, s.key.c_str());
        },
        server_rank);
}

}  // namespace

int p2p_main(kind k, int argc, char** argv) {
    const test& what = find_test(k);
    p2p_options o;
    try {
        if (const auto end = parse_p2p(argc, argv, what, o)) return *end;
        if (o.self) return run_both(what, o);
        return o.client() ? run_client(what, o, read_machine(), address_of(o), nullptr)
                          : run_server(what, o, 0, nullptr);
    } catch (const failure& e) {
        fmt::print(stderr, "{}: {}\n", what.program, e.what());
        return e.code();
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}: {}\n", what.program, e.what());
        return exit_failed;
    }
}

}  // namespace ef::perf::p2p
