// dialer: outgoing connections of one group, each retried until it is up, is refused for good, or
// its deadline passes. The other end may come later, may be busy, or may serve another communicator
// at that port just now: all of these are reasons to try again, soon and then less often.
#pragma once

#include "transport/base/clock.hpp"
#include "transport/bootstrap/endpoint.hpp"
#include "transport/bootstrap/handshake.hpp"
#include "transport/bootstrap/poller.hpp"

#include <list>
#include <memory>
#include <optional>
#include <vector>

namespace ef {

struct dial_order {
    hello_message hello;
    std::vector<endpoint> to;  // tried in turn
    std::string who;           // "rank 3 (host7, pid 4711)"
    deadline until;
    uint64_t refusals_ms = 0;  // give up when nobody has listened there for so long; 0: never
    bool local = false;
    std::vector<endpoint> from;  // this end's addresses, tried in turn; empty: the kernel's choice
};

struct dialled {
    hello_message hello;
    fd socket;
    bool local = false;
    status
        why;  // failed: EF_TIMEOUT, EF_AUTH_FAILED, EF_PEER_LOST (nobody listens), EF_NO_RESOURCE
};

class dialer {
public:
    dialer(poller& p, const secret& key) : poller_(p), key_(key) {}
    void add(dial_order o);
    bool ready(int socket, uint32_t events);
    void tick(uint64_t now);
    bool next(dialled& d);
    void close() noexcept;
    bool idle() const noexcept { return dials_.empty(); }
    /// When tick() next has something to do, in ms from `now`, at most `cap_ms`.
    int due_ms(uint64_t now, int cap_ms) const noexcept;

private:
    struct dial {
        dial_order order;
        fd socket;
        bool connected = false;
        std::optional<outbound> shake_;
        size_t turn = 0;
        uint64_t attempt_until = 0;  // of the connect alone
        uint64_t again_at = 0;       // next attempt, when there is no socket
        uint64_t backoff_ns = 2'000'000;
        uint64_t refused_since = 0;
        std::string last = "not tried yet";
    };
    void start(dial& d);
    result<fd> connect_from(dial& d, const endpoint& to, bool& in_progress, int& err);
    void retry(dial& d, std::string why, bool nobody_listens);
    void advance(dial& d);
    void finish(dial& d, status why);
    void sweep();

    poller& poller_;
    const secret& key_;
    std::list<dial> dials_;
    std::vector<dialled> done_;
};

}  // namespace ef
