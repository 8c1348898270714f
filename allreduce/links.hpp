// links: the channels of one communicator. A channel is made when a plan or a call first needs its
// peer, without blocking: the group brings authenticated sockets, this turns them into shm or tcp
// channels.
//
// With EFLOPS_STEER=on a tcp channel for collectives has connections of either side's own, each
// carrying data only away from the side that dialled it: so each side alone chooses, by its source
// port, the path of what it sends. steer() chooses; until it is called the kernel does. The links
// can be given other paths between operations: all such channels are closed and dialled anew, as
// the next generation.
#pragma once

#include "transport/bootstrap/group.hpp"
#include "transport/path/steer.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/rails.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ef {

enum class traffic : uint16_t { collectives = 0, point_to_point = 1 };

class links {
public:
    links(group& g, waiter& w, const config& c);

    /// By rank; null while not connected.
    std::vector<channel*>& channels(traffic t) noexcept { return table_[size_t(t)].ready; }

    /// Ask for a channel to `peer`, unless there is one or it is on its way.
    void want(rank_t peer, traffic t);

    /// Turn sockets that have come up into channels, and let those that are connecting go on. True
    /// if one was made.
    result<bool> progress();

    /// Let what is still on its way out go on. True when closing would lose nothing.
    bool delivered() noexcept;

    /// Is a channel wanted that is not there yet?
    bool connecting() const noexcept { return missing_ > 0; }

    struct break_report {
        status why;         // OK: no channel is broken
        bool left = false;  // its peer has said goodbye: it will not be found dead later
    };
    /// Let every channel look at its socket, and tell the group of those that broke. The first
    /// found.
    break_report attend();

    /// Is EFLOPS_STEER on, or trace?
    bool steers() const noexcept { return steers_; }
    /// Collective, between operations, blocking (see path::steer): choose this rank's paths so that
    /// its flows meet those of other ranks on no link. Channels for collectives that were there or
    /// wanted are made anew and come back by progress().
    status steer(std::span<const path::peer_rounds> mine, const path::steer_options& o = {});
    /// Collective, between operations, after steer(): look at the chosen paths again and choose anew
    /// for what they are now. Returns what was no longer as it had been, of all ranks: a dead path
    /// names the ends of the failed link.
    result<std::vector<path::checked_path>> resteer(const path::steer_options& o = {});
    /// What was chosen last; null before steer().
    const path::steering* paths() const noexcept { return chosen_ ? &*chosen_ : nullptr; }
    /// A source port that leads along the chosen way to `peer` and that no channel has; 0: none.
    uint16_t spare_port(rank_t peer) const noexcept;

    /// "shm" or "tcp:eth0": how `peer` is or would be reached.
    std::string medium(rank_t peer) const;

private:
    struct table {
        std::vector<channel*> ready;
        std::vector<std::unique_ptr<channel>> owned;
        std::vector<bool> wanted;
        std::vector<std::vector<link>> arriving;  // tcp: until all parallel connections are there
    };

    result<std::unique_ptr<channel>> make(std::vector<link> sockets);
    /// Do both ends have RDMA ports, and are they to be used?
    bool by_verbs(rank_t peer) const noexcept;
    result<std::unique_ptr<channel>> make_verbs(link l);

    // links_steer.cpp
    bool one_way(rank_t peer, traffic t) const noexcept;
    uint16_t steered_lane() const noexcept;
    void dial_steered(rank_t peer);
    result<bool> take_steered(link l);
    status steers_unlike(rank_t peer) const;
    status meet(const char* what);
    status close_steered();
    status choose(const path::steer_options& o);

    group& group_;
    waiter& waiter_;
    std::string single_copy_;
    uint16_t connections_;
    config config_;
    std::vector<std::unique_ptr<verbs::rail>> rails_;  // opened for the first peer; outlive table_
    int missing_ = 0;                                  // wanted, not made
    table table_[2];

    bool steers_;
    bool traces_only_;                      // one port for each flow: its way is found, not chosen
    uint32_t generation_ = 0;               // of the steered channels
    std::vector<path::peer_rounds> flows_;  // what steer() was given
    std::optional<path::steering> chosen_;
    std::vector<std::vector<int>> steered_sockets_;  // by rank; owned by the channels
};

}  // namespace ef
