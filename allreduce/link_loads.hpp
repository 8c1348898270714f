// link_loads: counts what flows put on the links of a fabric. One counter per link and a list of those
// that are not zero, so that clearing costs what the flows touched and not what the fabric has.
#pragma once

#include "allreduce/proof.hpp"

#include <span>
#include <vector>

namespace ef {

class link_loads {
public:
    /// `routes` and `where` outlive it. Each flow is split evenly over `subflows` paths.
    link_loads(const fabric::routes& routes, const mapping::placement& where, uint32_t subflows);

    /// Ranks on one host or in one server do not use the fabric.
    bool on_fabric(const flow& f) const noexcept {
        return server_[size_t(f.from)] != server_[size_t(f.to)];
    }
    /// Counts `f` on the links of its paths; false if one of them does not exist, and then counts
    /// nothing.
    bool lay(const flow& f);
    /// The links of all subflows of `f`, those that are on several of them several times; valid until
    /// the next call.
    std::span<const fabric::link_id> path_of(const flow& f);
    /// The links of one subflow are added to `out`, none within a host or server; false if there is no
    /// path.
    bool append(const flow& f, uint32_t subflow, fabric::path& out) const {
        return !on_fabric(f) ||
               routes_.append(host_[size_t(f.from)], host_[size_t(f.to)], subflow, out);
    }
    /// "no path from U0p0 (rank 0) to L1p0 (rank 3)"
    status no_path(const flow& f) const;

    std::span<const fabric::link_id> touched() const noexcept { return touched_; }
    /// A flow of which k of n subflows pass counts k/n.
    double flows(fabric::link_id l) const noexcept { return count_[l].flows * share_; }
    /// In vectors.
    double parts(fabric::link_id l) const noexcept { return count_[l].parts * share_; }
    void clear() noexcept;

private:
    struct counter {
        double parts = 0;
        uint32_t flows = 0;  // subflows
    };
    bool find(const flow& f);  // into path_

    const fabric::routes& routes_;
    std::vector<fabric::node_id> host_;  // by rank
    std::vector<uint32_t> server_;       // by rank: equal numbers, equal server
    uint32_t subflows_;
    double share_;
    std::vector<counter> count_;
    std::vector<fabric::link_id> touched_;
    fabric::path path_;
};

}  // namespace ef
