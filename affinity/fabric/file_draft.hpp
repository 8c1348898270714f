// file_draft: what a fabric file has said so far, with the place in the file where it said so. All
// formats end here: names, ends and capacities are checked as they come, the whole when it is built
// into a graph.
#pragma once

#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/graph.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ef::fabric {

/// What is said in a file without speeds.
inline constexpr double assumed_gbps = 100;

struct draft_node {
    node_kind kind = node_kind::network_switch;
    std::string name, server, address;
    uint32_t rail = 0;
    std::optional<uint8_t> tier;  // switches; else by distance from the nearest host
    uint8_t side = 0;
    uint32_t id = none;  // place among all nodes of the graph; all nodes have one or none has
    size_t at = 0;       // offset into the file
};

struct draft_cable {
    uint32_t a = none, b = none;  // what add_node() or find() gave
    double there = 0, back = 0;   // Gb/s of each lane
    uint32_t lanes = 1;
    bool up = true;
    std::string a_address, b_address;  // of the interfaces at the ends
    size_t at = 0, a_at = 0, b_at = 0;
};

class draft {
public:
    /// Words an error at an offset of the file.
    using complaint = std::function<status(size_t at, std::string_view reason)>;

    explicit draft(complaint c) : complain_(std::move(c)) {}

    std::string name;
    std::optional<bigraph_shape> bigraph;
    size_t bigraph_at = 0;

    /// Its index, or why not: a name that is empty or used twice, too many nodes.
    result<uint32_t> add_node(draft_node n);
    /// An end that is not fit, a host's second cable, a capacity that is not positive, too many.
    status add_cable(draft_cable c);
    uint32_t find(std::string_view called) const noexcept;
    const draft_node& at(uint32_t n) const noexcept { return nodes_[n]; }

    /// The graph: nodes in the order of their ids, else all switches, then all hosts, each in the
    /// order in which they were added; cables in the order in which they were added. Errors: a part
    /// that is apart, a host without cable, a BiGraph that is none.
    result<graph> build() &&;

private:
    struct name_hash {
        using is_transparent = void;
        size_t operator()(std::string_view s) const noexcept {
            return std::hash<std::string_view>()(s);
        }
    };

    status check_end(const draft_cable& c, uint32_t end, size_t at) const;
    void find_parts();
    status check_parts() const;
    status find_tiers();
    status check_bigraph() const;
    status check_plane(uint32_t part, const bigraph_shape& s) const;
    std::vector<uint32_t> order() const;
    std::string called(uint32_t n) const;

    complaint complain_;
    std::vector<draft_node> nodes_;
    std::vector<draft_cable> cables_;
    std::vector<uint32_t> cable_of_;  // by host: its cable
    std::vector<uint32_t> part_;  // by node: which connected part, cables that are down included
    uint32_t parts_ = 0;
    std::unordered_map<std::string, uint32_t, name_hash, std::equal_to<>> by_name_;
    size_t lanes_ = 0;
};

}  // namespace ef::fabric
