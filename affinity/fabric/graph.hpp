// graph: a fabric as switches, hosts and directed links. Everything that reasons about a network
// (routes, proof, simulation, lab) reads this one description.
//
//      server                 host = one NIC                     switch
//      "gpu-box-3"  ----->  "gpu-box-3/rail0"  ==two directed links==>  "U0"  ==lanes==>  "L2"
//
// A host is one network endpoint: one NIC with one link to one switch. A server that has several
// NICs is several hosts with the same `server`. Each cable is two directed links, each the other's
// `reverse`; parallel cables between the same two switches are lanes 0, 1, ... of that pair.
//
// Invariants (the builder and the file reader see to them): a host has exactly one cable, and it
// goes to a switch; names are unique; capacity is positive; node and link ids are dense, and do not
// change when a link goes down: it stays in the graph with up == false.
#pragma once

#include "transport/base/status.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ef::fabric {

using node_id = uint32_t;
using link_id = uint32_t;
inline constexpr uint32_t none = 0xffff'ffff;

enum class node_kind : uint8_t { host, network_switch };

struct node {
    std::string name;
    node_kind kind = node_kind::host;
    uint8_t tier = 0;    // host 0, switch with hosts 1, spine 2, core 3; both sides of a BiGraph: 1
    uint8_t side = 0;    // BiGraph: 0 = U, 1 = L; else 0
    std::string server;  // hosts: the machine that the NIC sits in
    std::string address;   // hosts: IP address or name by which a rank is recognised; may be empty
    uint32_t rail = 0;     // hosts: which NIC of its server
    uint32_t port = none;  // hosts: index among the hosts of its switch, 0 ..
};

struct link {
    node_id from = none, to = none;
    uint32_t lane = 0;  // among the parallel links from -> to
    double gbps = 0;    // 10^9 bit/s in this direction
    bool up = true;
    link_id reverse = none;
    // IP address of the interface at `to`: what a router answers with to a packet that came this
    // way and died there. Empty: not known.
    std::string to_address;
};

/// What a BiGraph was made of: S switches per side, H hosts per switch, L lanes per pair of
/// switches, one plane per rail [EFLOPS, HPCA 2020].
struct bigraph_shape {
    uint32_t switches = 1, hosts = 1, lanes = 1, rails = 1;
    uint32_t endpoints() const noexcept { return 2 * switches * hosts * rails; }
};

class graph {
public:
    std::string name;                      // "bigraph S=4 H=2 L=1", or what a file says
    std::optional<bigraph_shape> bigraph;  // if the generator or the file says that it is one

    // --- building; each returns the new id. add_cable gives the id of the a -> b link, whose
    // reverse is the next one.
    node_id add_switch(std::string called, uint8_t tier, uint8_t side = 0);
    node_id add_host(std::string called, std::string server = {}, uint32_t rail = 0);
    link_id add_cable(node_id a, node_id b, double gbps);
    link_id add_cable(node_id a, node_id b, double gbps_there, double gbps_back);

    /// OK, or the first invariant that does not hold, with the names: a host with no or two cables,
    /// a name used twice, a capacity that is not positive, a part that cannot be reached.
    status check() const;

    // --- reading
    std::span<const node> nodes() const noexcept { return nodes_; }
    std::span<const link> links() const noexcept { return links_; }
    const node& at(node_id n) const noexcept { return nodes_[n]; }
    const link& edge(link_id l) const noexcept { return links_[l]; }
    /// Hosts in the order in which they were added: "host i" everywhere is hosts()[i].
    std::span<const node_id> hosts() const noexcept { return hosts_; }
    std::span<const node_id> switches() const noexcept { return switches_; }
    /// Outgoing links of a node, down ones included, in the order in which they were added.
    std::span<const link_id> out(node_id n) const noexcept { return out_[n]; }
    /// The switch of a host, and its link to it.
    node_id switch_of(node_id host) const noexcept { return links_[uplink(host)].to; }
    link_id uplink(node_id host) const noexcept { return out_[host].front(); }
    /// By name; `none` if there is no such node.
    node_id find(std::string_view called) const noexcept;
    /// By text_of()'s name, lane 0 if it names none; `none` if there is no such link.
    link_id find_link(std::string_view text) const noexcept;
    /// "U0-L1", "U0-L1/1" for lane 1, "U0p3-U0": from and to of a directed link.
    std::string text_of(link_id l) const;

    // --- failures
    /// Both directions of a cable.
    void set_up(link_id l, bool up) noexcept;
    /// All cables of a switch.
    void set_switch_up(node_id n, bool up) noexcept;

    // --- what the field says beside the structure
    void set_address(node_id host, std::string ip) { nodes_[host].address = std::move(ip); }
    void set_link_address(link_id l, std::string ip) { links_[l].to_address = std::move(ip); }
    void set_gbps(link_id l, double gbps) noexcept { links_[l].gbps = gbps; }
    void set_tier(node_id n, uint8_t tier) noexcept { nodes_[n].tier = tier; }
    void set_side(node_id n, uint8_t side) noexcept { nodes_[n].side = side; }

private:
    struct name_hash {
        using is_transparent = void;
        size_t operator()(std::string_view s) const noexcept {
            return std::hash<std::string_view>()(s);
        }
    };

    node_id add(node n);
    status check_host(node_id h) const;
    status check_connected() const;

    std::vector<node> nodes_;
    std::vector<link> links_;
    std::vector<node_id> hosts_, switches_;
    std::vector<std::vector<link_id>> out_;
    std::vector<uint32_t> hosts_of_;                // by switch: hosts so far
    std::unordered_map<uint64_t, uint32_t> lanes_;  // by pair of nodes: cables so far
    std::unordered_map<std::string, node_id, name_hash, std::equal_to<>> by_name_;
};

// --- generators. gbps: of every link, unless a second number is given for those between switches.

/// Switches "U0".. and "L0"..; hosts "U0p0".. in the order U0p0, U0p1, .., U1p0, .., L0p0, ..; with
/// several rails each is a plane of its own: switches "r1U0", hosts "r1U0p0" of server "U0p0".
graph make_bigraph(const bigraph_shape& shape, double gbps);
/// Switches "leaf0".. and "spine0"..; hosts "leaf0p0".. leaf by leaf.
graph make_leaf_spine(uint32_t leaves, uint32_t hosts, uint32_t spines, uint32_t lanes, double gbps,
                      double spine_gbps = 0);
/// Three levels of k-port switches, k even: k pods of k/2 edge and k/2 aggregation switches, k^2/4
/// core switches, k^3/4 hosts [Al-Fares, Loukissas, Vahdat 2008]. "p0e1", "p0a0", "c0", "p0e1h0".
graph make_fat_tree(uint32_t k, double gbps);
/// Switch "sw0", hosts "h0"..
graph make_single(uint32_t hosts, double gbps);

/// "bigraph:S=4,H=2,L=1,rails=2,gbps=100", "leafspine:leaves=4,hosts=4,spines=4,gbps=25",
/// "fattree:k=4", "single:hosts=16": what every tool accepts in place of a file. Unnamed values
/// default to 1 (gbps: 100). Errors name the key and what is accepted.
result<graph> make_from_text(std::string_view text);

}  // namespace ef::fabric
