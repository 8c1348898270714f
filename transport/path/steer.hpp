// steer: choose for each of this rank's flows the source port by the way that it takes, so that the
// flows of one round of the plan meet on no link. Collective over a group: every rank probes from
// its own side, all learn what all have found, and each comes to the same choice for everybody.
//
//   rank a   probe ports 20000..   ->  ways to b: { p1 p5: U0 L1 }, { p2: U1 L1 }, ...
//   all      exchange              ->  flows, each with its rounds and its ways
//   all      assign                ->  one way per flow; a takes the first free port that goes there
//
// Probing asks only routers; it knows nothing of how they hash.
#pragma once

#include "transport/bootstrap/group.hpp"
#include "transport/path/assign.hpp"
#include "transport/path/probe.hpp"

#include <span>
#include <string>
#include <vector>

namespace ef::path {

/// What a router's answer names (see RFC 1812, 4.3.2.4).
enum class naming : uint8_t {
    automatic,   // judged by what all ranks have seen
    interface_,  // the interface at which the probe came in: the link itself
    router,      // one address per router: a link is a pair of them
};

struct steer_options {
    uint32_t candidates = 24;     // source ports tried per peer
    uint16_t first_port = 20000;  // ranks on one address take blocks of `candidates` from here on
    naming names = naming::automatic;
    probe_options probe;
};

/// One flow of this rank.
struct peer_rounds {
    rank_t to = -1;
    std::vector<uint32_t> rounds;  // of the plan in which this rank sends to it
};

/// How to choose a path, by transport. For RoCE v2 the flow label becomes the UDP source port.
struct flow_choice {
    uint16_t source_port = 0;  // tcp, udp
    uint32_t flow_label = 0;   // 20 bits; 0: none
};
/// The UDP source port that Linux gives a QP of this flow label (rdma_flow_label_to_udp_sport).
constexpr uint16_t roce_source_port(uint32_t flow_label) noexcept {
    const uint32_t fl = flow_label & 0xfffff;
    return uint16_t(((fl & 0x3fff) ^ (fl >> 14)) | 0xc000);
}
/// A flow label that leads to this UDP source port, which must be 0xc000 or more.
constexpr flow_choice roce_choice(uint16_t source_port) noexcept {
    return {source_port, uint32_t(source_port & 0x3fff)};
}

struct steered_peer {
    rank_t to = -1;
    std::vector<uint16_t> ports;  // all take the chosen way, the best first; empty: see why
    trace predicted;
    uint32_t ways = 0;  // distinct ones that were found
    status why;         // no candidate got through: "rank 3 (...): ... 10.0.0.0, then nothing"

    flow_choice choice() const noexcept { return {ports.empty() ? uint16_t(0) : ports[0], 0}; }
    /// "to rank 3: port 20007 by 10.0.0.0 172.16.0.3 172.16.0.10, one of 4 ways"
    std::string text() const;
};

/// A link that flows of one round must share, in words.
struct shared_link {
    std::string
        link;  // by the address of its far end: "172.16.0.3"; of a pair: "10.9.0.1-10.9.0.7"
    uint32_t round = 0;
    std::vector<std::pair<rank_t, rank_t>> flows;
    /// "link into 172.16.0.3, round 2: 0->4 1->5"
    std::string text() const;
};

struct steering {
    std::vector<steered_peer> peers;     // in the order they were asked for
    uint32_t worst = 0;                  // flows on the fullest link, of all ranks
    std::vector<shared_link> shared;     // of all ranks; empty: no two flows of a round meet
    std::vector<std::string> unreached;  // of all ranks: flows for which no way was found
    bool by_router = false;              // see naming
    uint32_t probe_ms = 0;               // this rank's probing

    const steered_peer* to(rank_t r) const noexcept;
};

/// Collective; blocks up to the probing's deadline and the group's timeout. Peers that share memory
/// with this rank are left out. Two ranks must not probe for the same group at different times. An
/// error is the group's, or EF_MISMATCH; a flow without a way is not an error but said in `peers`.
result<steering> steer(group& g, std::span<const peer_rounds> mine, const steer_options& o);

/// What became of a path that was predicted.
enum class path_state : uint8_t { same, moved, dead, unknown };

struct checked_path {
    rank_t from = -1, to = -1;
    path_state state = path_state::unknown;
    /// dead: the last router that answered (empty: none did) and the next on the old path that does
    /// not, or the destination: the ends of what has failed.
    std::string last_seen, next_silent;
    trace now;  // only of this rank's own paths
    /// "0->4 is dead behind 172.16.0.3, before 172.16.0.10"
    std::string text() const;
};

/// Probe the chosen ports of `s` again, without exchanging anything: this rank's own paths. The
/// ports must not be connected to their peers just now (one TCP connection per port and peer): such
/// a path comes back as `unknown` with now.why.
std::vector<checked_path> recheck_own(group& g, const steering& s, const steer_options& o);

/// The same of all ranks: collective, and every rank gets every rank's paths that are not `same`.
result<std::vector<checked_path>> recheck(group& g, const steering& s, const steer_options& o);

}  // namespace ef::path
