// How a lab comes to be and how it goes. The order is: namespaces, with what their kernels are told
// before there is an interface; cables; addresses, buckets, up; and, once every interface runs, the
// routes.
#include "tools/lab/forwarding.hpp"
#include "tools/lab/lab.hpp"
#include "tools/lab/lab_file.hpp"
#include "tools/lab/namespaces.hpp"
#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <set>

namespace ef::lab {
namespace {

using namespace fabric;

constexpr double least_mbit = 0.1, most_mbit = 100'000;
constexpr int loopback_index = 1;
constexpr unsigned running_limit_ms = 10'000, kill_limit_ms = 10'000;

struct setting {
    const char* path;  // below /proc/sys/net
    std::string value;
    bool needed;
};

/// Of the calling thread's namespace: that is what /proc/sys/net shows.
status apply(const std::vector<setting>& all) {
    for (const setting& s : all) {
        const std::string path = std::string("/proc/sys/net/") + s.path;
        const fd f(open(path.c_str(), O_WRONLY | O_CLOEXEC));
        const bool written =
            f && write(f.get(), s.value.data(), s.value.size()) == ssize_t(s.value.size());
        if (!written && s.needed) return system_error(path + " = " + s.value, errno);
        if (!written) log(EF_LOG_DEBUG, "lab: {} cannot be set to {}", path, s.value);
    }
    return {};
}

std::vector<setting> common_settings() {
    return {
        {"ipv6/conf/all/disable_ipv6", "1", false},
        {"ipv6/conf/default/disable_ipv6", "1", false},
        {"ipv4/conf/all/rp_filter", "0", true},
        {"ipv4/conf/default/rp_filter", "0", true},
    };
}

std::vector<setting> host_settings(const options& o) {
    std::vector<setting> all = common_settings();
    all.push_back({"ipv4/tcp_congestion_control", o.congestion, true});
    // What one connection learned of a queue must not slow the next one down.
    all.push_back({"ipv4/tcp_no_metrics_save", "1", false});
    return all;
}

/// Never 0, which means "the kernel's own", the same for all switches.
uint32_t hash_seed(uint64_t seed, uint64_t nth) {
    uint64_t z = seed * 0x9e3779b97f4a7c15 + (nth + 1) * 0xbf58476d1ce4e5b9;  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return uint32_t(z >> 32) | 1;
}

std::vector<setting> switch_settings() {
    std::vector<setting> all = common_settings();
    all.insert(
        all.end(),
        {
            {"ipv4/ip_forward", "1", true},
            // Addresses and ports. Policy 1 would look at a flow hash that local sockets choose at
            // random and that survives veth.
            {"ipv4/fib_multipath_hash_policy", "3", true},
            {"ipv4/fib_multipath_hash_fields", "55", true},
            {"ipv4/conf/all/ignore_routes_with_linkdown", "1", true},
            {"ipv4/conf/default/ignore_routes_with_linkdown", "1", true},
            {"ipv4/conf/all/send_redirects", "0", false},
            {"ipv4/conf/default/send_redirects", "0", false},
            // A probe that dies on a link is answered, by the very address that it came to.
            {"ipv4/icmp_errors_use_inbound_ifaddr", "1", true},
            {"ipv4/icmp_ratelimit", "0", true},
            {"ipv4/icmp_msgs_per_sec", "1000000", false},
            {"ipv4/icmp_msgs_burst", "100000", false},
        });
    return all;
}

status seed_hash(uint32_t seed) {
    const char* const path = "/proc/sys/net/ipv4/fib_multipath_hash_seed";
    if (access(path, F_OK) == 0)
        return apply({{"ipv4/fib_multipath_hash_seed", std::to_string(seed), true}});
    static bool said = false;
    if (!said)
        log(EF_LOG_WARN,
            "lab: this kernel (before 6.11) has one hash for all switches: paths change "
            "with each boot, and flows that met once meet again");
    said = true;
    return {};
}

/// What the kernel and the plan can do, before anything is touched.
status check_options(const graph& g, const options& o, const lab& l) {
    if (status s = check_name(o.name); !s.ok()) return s;
    if (status s = g.check(); !s.ok()) return s.in(g.name);
    if (g.hosts().empty()) return status(EF_INVALID, g.name + ": no hosts");
    if (o.mtu < 576 || o.mtu > 65535)
        return status(EF_INVALID, fmt::format("mtu {}: 576 to 65535", o.mtu));
    for (link_id i = 0; i < g.links().size(); ++i) {
        const double mbit = l.built_mbit(i);
        if (!(mbit >= least_mbit && mbit <= most_mbit))
            return status(EF_INVALID, fmt::format("link {}: {:g} Mbit/s is not within {:g} to {:g}",
                                                  g.text_of(i), mbit, least_mbit, most_mbit));
        // The kernel refuses what is larger than the queue for ever.
        if (o.queue_bytes < burst_of(o, mbit))
            return status(
                EF_INVALID,
                fmt::format("a queue of {} bytes is smaller than the bucket of {}, {} bytes",
                            o.queue_bytes, g.text_of(i), burst_of(o, mbit)));
    }
    std::set<std::string> names;
    for (node_id n = 0; n < g.nodes().size(); ++n)
        if (!names.insert(namespace_of(o.name, g, n)).second)
            return status(EF_INVALID,
                          fmt::format("{}: two names are too much alike", g.at(n).name));
    return {};
}

/// Under the lock: end and remove all that there is of a lab. Returns how many namespaces it had.
result<size_t> clear(const std::string& name) {
    const std::vector<std::string> names = namespaces_like(namespace_prefix(name));
    std::set<ino_t> inside;
    for (const std::string& n : names)
        if (result<fd> ns = open_namespace(n); ns.ok())
            if (const ino_t id = identity_of_namespace(ns->get()); id != 0) inside.insert(id);
    if (inside.count(namespace_of_process(getpid())) != 0)
        return status(EF_INVALID,
                      fmt::format("lab {}: this process is inside it and would end itself", name));
    // First: what a killed removal leaves must not look like a whole lab.
    lab_file::remove(name);
    status s = kill_processes_in(inside, kill_limit_ms);
    for (const std::string& n : names)
        if (s.ok()) s = remove_namespace(n);
    if (!s.ok()) return s.in(fmt::format("lab {}", name));
    remove_namespace_folder();
    return names.size();
}

}  // namespace

uint32_t burst_of(const options& o, double mbit) noexcept {
    if (o.burst_bytes != 0) return std::max(o.burst_bytes, 2 * o.mtu);
    const double one_ms = mbit * 1e6 / 8 / 1000;
    return uint32_t(std::max({70'000.0, 2.0 * o.mtu, one_ms}));
}

// ---------------------------------------------------------------- build

result<lab> lab::build(const graph& g, const options& o) {
    if (geteuid() != 0)
        return status(EF_UNSUPPORTED,
                      "network namespaces need root; an ordinary user has them inside "
                      "`ef_lab with FABRIC -- COMMAND`");
    lab l;
    l.how_ = o;
    l.net_ = g;
    if (status s = check_options(g, o, l); !s.ok()) return s;
    result<address_plan> plan = address_plan::make(g);
    if (!plan.ok()) return plan.why();
    l.plan_ = std::move(*plan);
    l.base_.resize(g.links().size());
    for (link_id i = 0; i < g.links().size(); ++i) {
        // A link that was given as down is built and then taken down.
        l.condition_.push_back({true, l.built_mbit(i), 0});
    }

    result<lab_lock> lock = lab_lock::take();
    if (!lock.ok()) return lock.why();
    if (lab_file::exists(o.name))
        if (result<lab> there = lab_file::load(o.name); there.ok() && there->finished_)
            return status(EF_INVALID,
                          fmt::format("lab {} is up already: {}", o.name, there->net_.name));
    if (result<size_t> old = clear(o.name); !old.ok()) return old.why();
    status s = lab_file::save_fabric(l);
    if (s.ok()) s = lab_file::save(l);
    if (s.ok()) s = l.put_together();
    l.finished_ = s.ok();
    if (s.ok()) s = lab_file::save(l);
    if (s.ok()) return l;
    (void)clear(o.name);
    lab_file::remove_folder();
    return s.in(fmt::format("lab {}", o.name));
}

status lab::put_together() {
    std::vector<fd> ns;
    std::vector<int> numbers;
    std::vector<netlink> at;
    for (node_id n = 0; n < net_.nodes().size(); ++n) {
        const bool host = net_.at(n).kind == node_kind::host;
        result<fd> made = create_namespace(namespace_name(n));
        if (!made.ok()) return made.why();
        const status s = in_namespace(made->get(), [&]() -> status {
            if (status set = apply(host ? host_settings(how_) : switch_settings()); !set.ok())
                return set;
            if (!host)
                if (status set = seed_hash(hash_seed(how_.seed, n)); !set.ok()) return set;
            result<netlink> socket = netlink::open();
            if (socket.ok()) at.push_back(std::move(*socket));
            return socket.why();
        });
        if (!s.ok()) return s.in(net_.at(n).name);
        numbers.push_back(made->get());
        ns.push_back(std::move(*made));
    }
    for (link_id l = 0; l < net_.links().size(); ++l) {
        const link& e = net_.edge(l);
        if (e.reverse < l) continue;
        const interface_name here{plan_.interface_of(l), plan_.index_of(l)},
            there{plan_.interface_of(e.reverse), plan_.index_of(e.reverse)};
        if (status s = at[e.from].add_veth(here, there, numbers[e.to], how_.mtu); !s.ok())
            return s.in(net_.text_of(l));
    }
    for (node_id n = 0; n < net_.nodes().size(); ++n)
        if (status s = configure(n, at[n]); !s.ok()) return s.in(net_.at(n).name);
    for (node_id n = 0; n < net_.nodes().size(); ++n)
        if (status s = wait_running(at[n], net_.out(n)); !s.ok()) return s.in(net_.at(n).name);
    const std::vector<forwarding_table> tables = forwarding_of(net_);
    for (node_id n = 0; n < net_.nodes().size(); ++n)
        if (status s = set_routes(n, at[n], tables[n]); !s.ok()) return s.in(net_.at(n).name);
    // What the graph has as down was built up, or it would have no carrier to wait for.
    for (link_id l = 0; l < net_.links().size(); ++l)
        if (!net_.edge(l).up)
            if (status s = set_link(l, {false, condition_[l].mbit, 0}); !s.ok()) return s;
    return {};
}

status lab::configure(node_id n, netlink& at) {
    if (status s = at.set_up(loopback_index, true); !s.ok()) return s.in("lo");
    for (const link_id l : net_.out(n)) {
        const std::string& name = plan_.interface_of(l);
        const int i = plan_.index_of(l);
        const double mbit = condition_[l].mbit;
        const shape bucket{uint64_t(std::llround(mbit * 1e6 / 8)), burst_of(how_, mbit),
                           how_.queue_bytes};
        status s = at.add_address(i, plan_.sender(l), 31);
        if (s.ok()) s = at.set_shape(i, bucket);
        if (s.ok()) s = at.set_up(i, true);
        if (!s.ok()) return s.in(name);
    }
    return {};
}

/// What is sent before both ends run is lost. There is no event to wait for that many namespaces
/// would share, so each is asked until it says so.
status lab::wait_running(netlink& at, std::span<const link_id> out) const {
    const deadline limit = deadline::in_ms(running_limit_ms);
    for (;;) {
        result<std::vector<interface_state>> all = at.interfaces();
        if (!all.ok()) return all.why();
        const auto idle = std::find_if(out.begin(), out.end(), [&](link_id l) {
            return std::none_of(all->begin(), all->end(), [&](const interface_state& i) {
                return i.index == plan_.index_of(l) && i.running;
            });
        });
        if (idle == out.end()) return {};
        if (limit.passed())
            return status(EF_TIMEOUT, fmt::format("{} does not run after {} ms",
                                                  plan_.interface_of(*idle), running_limit_ms));
        usleep(500);
    }
}

// ---------------------------------------------------------------- remove

result<size_t> lab::remove(const std::string& name) {
    if (status s = check_name(name); !s.ok()) return s;
    if (geteuid() != 0) return status(EF_UNSUPPORTED, "removing a lab needs root");
    result<lab_lock> lock = lab_lock::take();
    if (!lock.ok()) return lock.why();
    result<size_t> gone = clear(name);
    lab_file::remove_folder();
    return gone;
}

std::vector<std::string> lab::all() {
    std::set<std::string> found;
    for (const std::string& n : lab_file::names()) found.insert(n);
    const std::string start = "eflab-";
    for (const std::string& n : namespaces_like(start))
        found.insert(n.substr(start.size(), n.find('-', start.size()) - start.size()));
    return {found.begin(), found.end()};
}

}  // namespace ef::lab
