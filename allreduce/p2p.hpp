// p2p: sends and receives between pairs of ranks, beside the collectives and on channels of their
// own. Per peer and direction they are done in the order in which they were started. Every message
// carries the length of the whole, so that a receive of another length is found at once.
#pragma once

#include "allreduce/request.hpp"
#include "transport/transport.hpp"

#include <vector>

namespace ef {

class p2p {
public:
    /// `channels`: by rank, null while not connected.
    p2p(rank_t rank, rank_t nranks, std::vector<channel*>& channels);

    void start(request* r);
    /// Move what can move; requests that finish are marked and added to `finished`. True if
    /// anything moved.
    bool advance(std::vector<request*>& finished);
    bool idle() const noexcept { return active_.empty(); }

    /// What went wrong between this rank and a peer (a length that differs); OK otherwise.
    const status& error() const noexcept { return error_; }

    /// Take all requests out of the queues, for failing them.
    std::vector<request*> abandon();

    /// The first unfinished request per peer and direction.
    std::vector<const request*> pending() const;

private:
    struct peer_queue {
        request_queue sends, receives;
        bool listed = false;
    };

    bool advance_send(channel& c, peer_queue& q, std::vector<request*>& finished);
    bool advance_receive(rank_t peer, channel& c, peer_queue& q, std::vector<request*>& finished);
    bool advance_self(peer_queue& q, std::vector<request*>& finished);
    bool fits(const request& r, uint64_t announced, rank_t peer) noexcept;

    rank_t rank_;
    std::vector<channel*>& channels_;
    std::vector<peer_queue> queues_;  // by rank
    std::vector<rank_t> active_;      // peers with a nonempty queue
    status error_;
};

}  // namespace ef
