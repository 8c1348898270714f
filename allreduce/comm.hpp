// comm: a communicator. It puts together what the other files do: the group (who is there), links
// (channels), selection (which plan), programs (plans bound to a size), exec and p2p (running
// them).
//
// Collectives run one after the other, in the order in which they were started, which is the same
// on all ranks; so the messages of a channel need no matching. Whoever waits makes the progress:
// there is no thread. A thread that waits on one communicator also moves the others of the process
// now and then, so that ranks may wait in any order.
//
// Lock order: comm::lock_, then nothing. progress_others() only tries.
#pragma once

#include "allreduce/comm_lock.hpp"
#include "allreduce/exec.hpp"
#include "allreduce/fault/flight.hpp"
#include "allreduce/fault/link_watch.hpp"
#include "allreduce/fault/repair.hpp"
#include "allreduce/links.hpp"
#include "allreduce/p2p.hpp"
#include "allreduce/request.hpp"
#include "allreduce/selection.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace ef {

class comm {
public:
    static result<std::unique_ptr<comm>> create(int rank, int nranks, const ef_comm_options* opt);
    result<std::unique_ptr<comm>> split(int color, int key);
    ~comm();

    rank_t rank() const noexcept { return group_->rank(); }
    rank_t nranks() const noexcept { return group_->nranks(); }
    const group& members() const noexcept { return *group_; }
    links& all_links() noexcept { return *links_; }
    selection& planner() noexcept { return *selection_; }
    /// Whether ranks of one host reach each other through shared memory.
    bool shares_memory() const noexcept {
        return config_.transport == "auto" || config_.transport == "shm";
    }
    /// The chosen paths of this rank's data, a line each, and what they share; empty if they are not
    /// chosen.
    std::string paths_text();
    /// Choose them anew. Collective, blocking, between operations.
    status resteer();
    /// group::exchange.
    result<std::vector<std::byte>> exchange(std::span<const std::byte> mine);

    /// What a collective was called with.
    struct collective_call {
        ef_collective_t coll;
        const void* in;
        void* out;
        size_t count;
        ef_type_t type;
        ef_op_t op;
        int root;
    };
    result<request*> start(const collective_call& c);
    result<request*> start_barrier();
    result<request*> start_p2p(bool sending, void* buf, size_t count, ef_type_t type, int peer);

    /// Until `r` is finished; frees it.
    status wait(request* r);
    /// One look; frees it and sets `done` if finished.
    status test(request* r, bool& done);

    /// Finish what was started, within the timeout, then say goodbye and wait (at most 5 s) until it
    /// and all data are with the peers.
    status finish();
    void abort() noexcept;

private:
    struct cached_program {
        collective_call like;  // without buffers
        bool in_place;
        uint32_t plan_version;
        selection::choice chosen;
        program prog;
        uint32_t hash;
    };
    comm(config c, std::unique_ptr<group> g, std::unique_ptr<waiter> w,
         std::shared_ptr<selection> s);

    static constexpr uint64_t tick_ns = 1'000'000;

    // comm.cpp
    status check(const collective_call& c, bool& in_place) const;
    result<const cached_program*> program_for(const collective_call& c, bool in_place);
    static void bind(request* r, const cached_program& p) noexcept;
    request* take_request();
    void give_back(request* r) noexcept;
    status wrong_process() const;
    status choose_paths();

    // progress.cpp
    bool poll();
    bool start_next();
    bool plan_anew(request* r);
    void hear_words();
    std::vector<link_watch::watched> watched_peers() const;
    void watch_links(uint64_t now);
    void act_on(const link_finding& f);
    std::string wrong_link() const;
    void finish_current() noexcept;
    void tick();
    void fail(status why);
    std::vector<flight_waiting> waiting_for() const;
    std::string waiting_text() const;
    void write_flight_record(const std::vector<flight_waiting>& waiting);
    void pause(comm_lock& hold, unsigned fruitless);
    void linger() noexcept;
    void sleep_until_news(comm_lock& hold);
    bool others_pending();
    bool idle() const noexcept { return !current_ && queue_.empty() && p2p_->idle(); }

    config config_;
    std::unique_ptr<waiter> waiter_;
    std::unique_ptr<group> group_;
    std::unique_ptr<links> links_;
    std::shared_ptr<selection> selection_;
    std::unique_ptr<exec> exec_;
    std::unique_ptr<p2p> p2p_;
    flight_recorder flight_;

    std::mutex lock_;
    std::atomic<int> contenders_{0};  // threads that want the lock while a waiter spins with it
    std::atomic<bool> abort_asked_{false};

    // --- under lock_
    request* current_ = nullptr;  // collective that exec_ runs
    request_queue queue_;         // collectives that wait for their turn
    std::vector<request*> finished_;
    uint64_t next_number_ = 0, next_p2p_ = 0;
    status failure_;  // written once, before failed_ is set
    std::atomic<bool> failed_{false};
    bool asleep_ = false;     // a thread sleeps on waiter_
    bool connecting_ = true;  // sockets or channels are coming up: tick more often
    bool moved_since_tick_ = true;
    bool oversubscribed_ = false;  // more ranks on this host than cores
    uint64_t ticked_at_ns_ = 0;
    uint64_t broken_since_ns_ = 0;  // a channel has been broken; 0: none is
    uint64_t moved_at_ns_ = 0;      // last tick before which something had moved
    uint64_t quiet_since_ns_ =
        0;  // of the waiting thread: since when, and for how long nothing has moved
    uint64_t quiet_ns_ = 0;
    unsigned made_in_ = 0;  // fork generation

    std::unique_ptr<repair> repair_;     // null: no fabric is known
    std::unique_ptr<link_watch> watch_;  // null: nor are its addresses
    uint32_t plan_version_ = 0;          // grows when plans have to leave out more links
    std::vector<std::unique_ptr<cached_program>> programs_;
    const cached_program* last_program_ = nullptr;
    std::vector<std::unique_ptr<request>> requests_;
    request_queue pool_;
    std::string id_;
    std::byte barrier_in_[1] = {},
              barrier_out_[1] = {};  // what a barrier moves; nobody looks at it
};

}  // namespace ef
