// group: the control plane of one communicator. It brings the ranks together, lets nobody in who
// does not hold the job's key, makes authenticated sockets for the channels, and knows when a rank
// has died.
//
//   join       every rank tells rank 0 (the root) where it listens; once all are there the root
//   answers each with the
//              addresses of its neighbours r +- 2^k; then ceil(log2 P) dissemination rounds spread
//              everybody's peer_info
//   watch      the neighbour connections stay open. EOF without a goodbye means that the neighbour
//   died: the notice is
//              flooded to all neighbours, so that every rank names the culprit and not a bystander
//   sockets    a channel between ranks a < b is dialled by a: over an abstract unix socket when
//   both share a host (no file
//              is left behind), over tcp otherwise
//
// Everything that listens answers a connection only with a challenge until the peer has proved the
// key; slow or silent strangers are dropped after a short time and never more than a bounded number
// is kept. One thread at a time.
#pragma once

#include "transport/base/config.hpp"
#include "transport/bootstrap/launcher.hpp"
#include "transport/transport.hpp"
#include "transport/waiter.hpp"

#include <memory>
#include <span>
#include <vector>

namespace ef {

struct peer_info {
    std::string host;     // for people
    std::string host_id;  // equal: shares memory and abstract unix sockets (boot id, network
                          // namespace, user)
    int32_t pid = 0;
    std::string
        cpus;  // CPUs its process may run on: a hexadecimal digit for each four, CPU 0 first
    std::string address;     // "ip:port" or "[ip6]:port" of its data listener
    std::string unix_name;   // of its abstract unix listener
    std::string interface_;  // name of the interface behind `address`
    std::string rails;       // RDMA ports that it can use: "mlx5_0/1,mlx5_1/1"; empty: none
};

/// One authenticated connection for a channel.
struct link {
    rank_t peer = -1;
    uint16_t lane = 0;   // 0: collectives, 1: point to point, ...
    uint16_t index = 0;  // which of `count` parallel connections
    uint16_t count = 1;
    bool local = false;    // unix socket
    bool dialled = false;  // by this rank
    fd socket;             // non-blocking, close-on-exec; for tcp: TCP_NODELAY
};

class group {
public:
    virtual ~group() = default;

    /// Blocks until all ranks have joined or the timeout passes; then the error names who is
    /// missing.
    static result<std::unique_ptr<group>> join(launch l, const config& c, waiter& w);

    /// Collective over this group: a new group of the ranks with the same `color`, ordered by (key,
    /// rank). Null for color < 0.
    virtual result<std::unique_ptr<group>> split(int color, int key, waiter& w) = 0;

    virtual rank_t rank() const noexcept = 0;
    virtual rank_t nranks() const noexcept = 0;
    virtual const peer_info& info(rank_t r) const noexcept = 0;
    virtual peer_name name(rank_t r) const = 0;
    /// Whether r is reached through shared memory, given EFLOPS_TRANSPORT and host ids.
    virtual bool local(rank_t r) const noexcept = 0;

    /// Allgather of `mine` (same length on every rank) over the control connections in ceil(log2 P)
    /// rounds. Collective, blocking up to the timeout. Returns nranks * mine.size() bytes.
    virtual result<std::vector<std::byte>> exchange(std::span<const std::byte> mine) = 0;

    // --- without blocking

    /// A channel to `peer` is needed: dials `connections` sockets if this rank is the lower one
    /// (else the peer will).
    virtual void want(rank_t peer, uint16_t lane, uint16_t connections) = 0;
    /// Dial `connections` sockets to `peer` whatever its rank, over tcp, from these source ports of
    /// this rank's address where any are given: connection i from ports[i], and where that is taken
    /// from the others that follow. The peer gets them by its next().
    virtual void dial(rank_t peer, uint16_t lane, uint16_t connections,
                      std::span<const uint16_t> ports) = 0;
    /// Hand out one socket that has come up, wanted by us or by the peer. False: none.
    virtual bool next(link& l) = 0;
    /// Accept, shake hands, read and forward notices.
    virtual void progress() noexcept = 0;

    /// OK, or what ended the job for good: "rank 3 (host7, pid 4711) died: connection reset", an
    /// abort.
    virtual const status& failure() const noexcept = 0;
    /// Has `r` said goodbye (ef_comm_destroy)? Not a failure, unless somebody still needs it.
    virtual bool gone(rank_t r) const noexcept = 0;
    /// Tell all ranks to fail with `why` (code and text). Also sets failure().
    virtual void abort(const status& why) noexcept = 0;
    /// A channel saw its peer's connection break: if it proves to be a death, failure() is set and
    /// flooded.
    virtual void suspect(rank_t peer, const status& why) noexcept = 0;
    /// Say `data` (at most 64 KiB) to every rank, this one included, over the control connections.
    /// Words of one rank come in its order, once; those of different ranks in any.
    virtual void tell(std::span<const std::byte> data) = 0;
    /// The next word that has come. False: none.
    virtual bool next_word(rank_t& from, std::vector<std::byte>& data) = 0;
    /// Say goodbye to the neighbours. Does not block; the destructor closes.
    virtual void leave() noexcept = 0;
    /// Has all that was said, the goodbye included, reached the neighbours' machines? If not: progress(),
    /// and ask again. Closing earlier may lose it.
    virtual bool delivered() noexcept = 0;
};

}  // namespace ef
