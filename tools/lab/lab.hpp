// lab: a fabric on this machine. Every host and every switch of a graph is a network namespace, a
// switch forwards IPv4 by the kernel's routes and its ECMP hash, and each direction of a cable is a
// token bucket on one end of a veth pair. Nothing is simulated: congestion, queues, a hash that
// puts two flows on one link are the kernel's own.
//
// A lab belongs to no process. What it is made of has names (namespaces "eflab-NAME-NODE"), what is
// known of it is in /run/eflops-lab/NAME.*, and each call finds it by these; so a lab that
// was left behind, half built or with its processes running, can always be removed by name.
//
// Needs root; enter_private_world() (private.hpp) makes an ordinary user root of a world of his own.
#pragma once

#include "affinity/fabric/graph.hpp"
#include "tools/lab/address.hpp"
#include "tools/lab/forwarding.hpp"
#include "tools/lab/netlink.hpp"
#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ef::lab {

inline constexpr const char* default_name = "lab";

struct options {
    std::string name = default_name;
    std::string source;        // what the fabric was read from, for show
    double host_mbit = 100;    // rate of the first host's link, 10^6 bit/s; others in proportion
    uint32_t mtu = 9000;       // bytes of IP
    uint32_t burst_bytes = 0;  // of each token bucket; 0: see burst_of()
    uint32_t queue_bytes = 4 << 20;
    uint64_t seed = 1;                // of the switches' hashes
    std::string congestion = "reno";  // TCP's congestion control on the hosts
};

/// A bucket holds what the kernel hands over in one piece (64 KiB of TCP and its headers), 2 MTU and
/// 1 ms of the rate, whichever is most: smaller, and pieces would have to be cut.
uint32_t burst_of(const options& o, double mbit) noexcept;

/// What was done to a directed link.
struct link_condition {
    bool up = true;
    double mbit = 0;  // now
    double loss_percent = 0;
    bool operator==(const link_condition&) const = default;
};

enum class fault_kind : uint8_t { down, up, slow, lossy, pause, resume, kill };

struct fault {
    fault_kind what = fault_kind::down;
    double amount = 0;  // slow: Mbit/s; lossy: percent, 100 is a black hole that nobody notices
    /// down, up: compute the routes of all switches anew, as a routing protocol would. Without, only
    /// the two ends notice, and the others keep sending into the hole.
    bool reroute = true;
    /// slow, lossy: only in the direction that was named, instead of in both.
    bool one_way = false;
};

class lab {
public:
    /// Build it. Remains of a lab of this name that was never finished are removed first; a finished
    /// one is an error. On failure nothing is left.
    static result<lab> build(const fabric::graph& g, const options& o);
    static result<lab> open(const std::string& name);
    /// Kill what runs in it and remove it, finished or not. Returns how many namespaces there were.
    static result<size_t> remove(const std::string& name);
    /// Names of the labs of which something exists.
    static std::vector<std::string> all();

    /// Links that a fault took down are down in it.
    const fabric::graph& net() const noexcept { return net_; }
    const options& how() const noexcept { return how_; }
    const address_plan& addresses() const noexcept { return plan_; }
    ipv4 address_of(fabric::node_id host) const noexcept { return plan_.host(net_, host); }
    /// Mbit/s as built.
    double built_mbit(fabric::link_id l) const noexcept;
    const link_condition& condition(fabric::link_id l) const noexcept { return condition_[l]; }
    /// The fabric as it was built, for EFLOPS_FABRIC.
    std::string fabric_file() const;
    std::string namespace_name(fabric::node_id n) const { return namespace_of(how_.name, net_, n); }

    /// Run `body` on a thread inside the namespace of a node: for sockets that are to be there.
    status inside(fabric::node_id n, const std::function<status()>& body) const;

    /// `where`: a link ("U0-L1", "U0-L1/1"), or a host or switch: then its cables, or for pause,
    /// resume and kill all processes in the namespace of the host. Errors say what there is.
    status inject(std::string_view where, const fault& f);

    /// By link: sent since the lab was built or the counters were last reset.
    result<std::vector<traffic>> counters() const;
    status reset_counters();

private:
    friend struct lab_file;
    lab() = default;

    status put_together();
    status configure(fabric::node_id n, netlink& at);
    status wait_running(netlink& at, std::span<const fabric::link_id> out) const;
    status set_routes(fabric::node_id n, netlink& at, const forwarding_table& t) const;
    status reroute() const;
    status set_link(fabric::link_id l, const link_condition& to);
    result<std::vector<fabric::link_id>> cables_of(std::string_view where, bool one_way) const;
    status inject_cables(const std::vector<fabric::link_id>& links, const fault& f);
    status signal_host(std::string_view host, fault_kind what) const;
    result<netlink> netlink_of(fabric::node_id n) const;
    result<std::vector<traffic>> raw_counters() const;

    options how_;
    fabric::graph net_;
    address_plan plan_;
    std::vector<link_condition> condition_;  // by link
    std::vector<traffic> base_;              // by link: counters at the last reset
    bool finished_ = false;
};

}  // namespace ef::lab
