// group_impl: the one implementation of group. Its parts are in files of their own: rendezvous.cpp
// (who are we), connect.cpp (sockets to the neighbours and for channels), exchange.cpp, watch.cpp
// (notices, goodbyes, deaths), split.cpp.
#pragma once

#include "transport/bootstrap/connection.hpp"
#include "transport/bootstrap/dialer.hpp"
#include "transport/bootstrap/group.hpp"
#include "transport/bootstrap/interfaces.hpp"
#include "transport/bootstrap/listener.hpp"

#include <deque>
#include <map>

namespace ef {

/// r +- 2^k for all 2^k < nranks, ascending, without r.
std::vector<rank_t> neighbours_of(rank_t r, rank_t nranks);
/// "ranks 3, 7", at most a dozen of them.
std::string rank_list(const std::vector<rank_t>& ranks);

class group_impl final : public group {
public:
    group_impl(rank_t rank, rank_t nranks, const config& c, const secret& key, waiter& w);
    ~group_impl() override;

    status join(launch& l);

    result<std::unique_ptr<group>> split(int color, int key, waiter& w) override;
    rank_t rank() const noexcept override { return rank_; }
    rank_t nranks() const noexcept override { return nranks_; }
    const peer_info& info(rank_t r) const noexcept override { return infos_[size_t(r)]; }
    peer_name name(rank_t r) const override;
    bool local(rank_t r) const noexcept override;
    result<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override;
    void want(rank_t peer, uint16_t lane, uint16_t connections) override;
    void dial(rank_t peer, uint16_t lane, uint16_t connections,
              std::span<const uint16_t> ports) override;
    bool next(link& l) override;
    void progress() noexcept override;
    const status& failure() const noexcept override { return failure_; }
    bool gone(rank_t r) const noexcept override { return gone_[size_t(r)]; }
    void abort(const status& why) noexcept override;
    void suspect(rank_t peer, const status& why) noexcept override;
    void leave() noexcept override;
    bool delivered() noexcept override;
    void tell(std::span<const std::byte> data) override;
    bool next_word(rank_t& from, std::vector<std::byte>& data) override;

private:
    struct neighbour {
        std::unique_ptr<connection> line;  // null until it is up
        std::deque<frame> inbox;           // blocks
        std::string address;
        bool left = false;  // it said goodbye itself, on this line: no more blocks will come
    };
    struct suspicion {
        rank_t peer;
        std::string why;
        uint64_t confirm_at;
    };
    struct enlisted {  // one end of the rendezvous; at the root one per rank that has come
        std::unique_ptr<connection> line;
        std::string address;  // of its listener; empty until it has said so
    };

    deadline patience() const noexcept;
    status open(bool with_listeners, const endpoint* root);

    // rendezvous.cpp
    result<std::vector<endpoint>> find_root(launch& l, deadline d);
    result<std::vector<endpoint>> listen_as_root(launch& l, deadline d);
    status serve_root(const launch& l, deadline d);
    status ask_root(const launch& l, std::vector<endpoint> root, deadline d);
    status hear_root(connection& line, deadline d);
    void admit(arrival a, uint64_t since_ns);
    void read_enlisted();
    std::vector<rank_t> missing() const;
    void answer_all();
    status root_timed_out(uint64_t waited_ms);

    // connect.cpp
    status connect_neighbours(deadline d);
    hello_message hello_to(rank_t peer, purpose what) const;
    verdict_code judge(const hello_message& h) const;
    void look(int timeout_ms);
    dial_order order_to(rank_t peer, uint16_t lane, uint16_t index, uint16_t count) const;
    void accept_arrivals();
    void accept_dialled();
    void read_neighbours();

    // exchange.cpp
    result<std::vector<bytes>> allgather(std::span<const std::byte> mine, deadline d);
    status await_blocks(rank_t from, uint32_t serial, uint16_t round, deadline d, frame& f);
    status flush(deadline d);
    status learn_infos(deadline d);
    status check_transport() const;

    // watch.cpp
    void flood(uint16_t type, const bytes& payload, rank_t except);
    void notice(const notice_message& m, rank_t from);
    void goodbye(rank_t r, rank_t from);
    bool read_frame(neighbour& n, frame f, rank_t from);
    void pass_on(word_message m, rank_t from);
    void died(rank_t r, const std::string& why);
    void confirm_suspicions(uint64_t now);

    // split.cpp
    status prepare_split(split_offer& o);
    status finish_split(const std::vector<split_offer>& offers);

    const rank_t rank_, nranks_;
    config config_;
    secret key_;
    waiter& waiter_;
    group_id id_{};
    uint32_t sequence_ = 0;
    poller poller_;
    std::unique_ptr<listener> listener_, root_listener_;
    dialer dialer_;
    std::map<rank_t, enlisted> enlisted_;
    std::map<rank_t, neighbour> neighbours_;
    std::vector<peer_info> infos_;
    std::deque<link> links_;
    uint32_t serial_ = 0;
    status failure_;
    status dial_failure_;  // of a control connection, while joining
    std::vector<bool> gone_;
    std::vector<suspicion> suspicions_;
    std::map<rank_t, uint32_t> words_heard_;  // serial of the last word, by who said it
    std::deque<std::pair<rank_t, bytes>> words_;
    bool watched_ = false, joined_ = false;
};

}  // namespace ef
