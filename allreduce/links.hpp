// links: the channels of one communicator. A channel is made when a plan or a call first needs its
// peer, without blocking: the group brings authenticated sockets, this turns them into shm or tcp
// channels.
#pragma once

#include "transport/bootstrap/group.hpp"
#include "transport/transport.hpp"

#include <memory>
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

    /// Is a channel wanted that is not there yet?
    bool connecting() const noexcept { return missing_ > 0; }

    struct break_report {
        status why;         // OK: no channel is broken
        bool left = false;  // its peer has said goodbye: it will not be found dead later
    };
    /// Let every channel look at its socket, and tell the group of those that broke. The first
    /// found.
    break_report attend();

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

    group& group_;
    waiter& waiter_;
    std::string single_copy_;
    uint16_t connections_;
    int missing_ = 0;  // wanted, not made
    table table_[2];
};

}  // namespace ef
