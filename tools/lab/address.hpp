// address: what everything in a lab is called: IP addresses, interfaces, namespaces. Computed from
// the graph alone, so that every command finds them again.
//
//   host on port p of switch s     10.s.p.1/31   its end of the cable ("eth0")
//                                  10.s.p.0/31   the switch's end
//   cable c between switches       172.16.0.0/12 + 2c, + 2c + 1, as /31
//   everything behind switch s     10.s.0.0/16
//
// s counts graph::switches(), p the hosts of the switch, c the cables between switches. So a fabric
// may have 256 switches with 256 hosts each.
//
// Each directed link ends in one address, that of the interface it comes in by. A switch answers a
// probe that dies there from this address, which so names the link.
#pragma once

#include "affinity/fabric/graph.hpp"
#include "tools/lab/netlink.hpp"

#include <map>
#include <string>
#include <vector>

namespace ef::lab {

class address_plan {
public:
    /// An error if the fabric is too large for the plan.
    static result<address_plan> make(const fabric::graph& g);

    /// Of the interface by which this directed link leaves its node.
    ipv4 sender(fabric::link_id l) const noexcept { return sender_[l]; }
    ipv4 receiver(const fabric::graph& g, fabric::link_id l) const noexcept {
        return sender_[g.edge(l).reverse];
    }
    ipv4 host(const fabric::graph& g, fabric::node_id host) const noexcept {
        return sender_[g.uplink(host)];
    }
    /// The prefix, of 16 bits, of everything behind a switch.
    ipv4 behind(fabric::node_id network_switch) const noexcept { return behind_[network_switch]; }
    /// The directed link that ends in this address; `none` if no link does.
    fabric::link_id link_into(ipv4 address) const noexcept;

    /// The interface by which this directed link leaves its node: "eth0" on a host, on a switch the
    /// neighbour's name where it is one that an interface may have ("L1", "L1_2" for lane 2), else
    /// "link17".
    const std::string& interface_of(fabric::link_id l) const noexcept { return interface_[l]; }
    /// Its number. The two ends of a cable never have the same, though they are in two namespaces:
    /// the kernel would take them for no pair and report a carrier up to a second late.
    static int index_of(fabric::link_id l) noexcept { return int(l) + 10; }

private:
    std::vector<ipv4> sender_;  // by link
    std::vector<ipv4> behind_;  // by node
    std::map<ipv4, fabric::link_id> into_;
    std::vector<std::string> interface_;  // by link
};

/// "10.3.0.1"
std::string text_of(ipv4 address);

/// What the namespaces of a lab begin with: "eflab-NAME-".
std::string namespace_prefix(const std::string& lab);
/// "eflab-NAME-U0p3". Other characters than letters, digits, '.', '_' and '-' become '_', and then
/// the node's number follows.
std::string namespace_of(const std::string& lab, const fabric::graph& g, fabric::node_id n);
/// Letters, digits and '_', 1 to 32: so that no lab's prefix is the beginning of another's.
status check_name(const std::string& lab);

}  // namespace ef::lab
