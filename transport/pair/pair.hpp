// pair: two processes that meet at host:port without a launcher, and what lies between them: one
// control connection for blobs, and the endpoints that both open over it.
//
//   server                                    client
//   pair_listener::accept()   <- hello -----  pair::connect()     handshake of bootstrap/
//      host, pid, session id  -- frames --->  host, pid
//   open("auto")              <- open ------  open("tcp")         it says which transport
//                             <- sockets ---                      dialled, of this session
//                             -- answer --->                      or why not
//
// Protection: with a key (EFLOPS_KEY, EFLOPS_KEY_FILE) both ends prove that they hold it, as ranks
// do. Without one anybody who reaches the port can be the peer, as with ib_write_bw; what he can
// reach is the memory that is enrolled in an endpoint, and nothing else. One client at a time.
#pragma once

#include "transport/base/clock.hpp"
#include "transport/base/config.hpp"
#include "transport/bootstrap/connection.hpp"
#include "transport/bootstrap/dialer.hpp"
#include "transport/bootstrap/listener.hpp"
#include "transport/endpoint.hpp"
#include "transport/waiter.hpp"

#include <deque>
#include <memory>
#include <optional>

namespace ef {

class pair;

/// The configured key, made the secret of pairs; without a key, one that everybody has.
result<secret> pair_secret(const config& c);

class pair_listener {
public:
    /// `at`: "host:port"; an empty host (":18515") is every address of this one. `listen_fd`: a
    /// listening socket to use instead (duplicated), when > 0.
    static result<std::unique_ptr<pair_listener>> open(const config& c, const std::string& at,
                                                       int listen_fd);
    /// "[::]:18515".
    const std::string& address() const noexcept { return address_; }
    /// The next client. EF_TIMEOUT when none has come.
    result<std::unique_ptr<pair>> accept(deadline d);

private:
    friend class pair;
    pair_listener(const config& c, const secret& key);
    status listen(const std::string& at, int listen_fd);
    verdict_code judge(const hello_message& h) const;
    void look(int timeout_ms);

    config config_;
    secret key_;
    poller poller_;
    std::string address_, unix_name_;
    std::optional<arrival> caller_;
    std::vector<arrival> data_;  // sockets of the session
    bool busy_ = false;
    group_id session_{};
    std::unique_ptr<listener> listener_;
};

class pair {
public:
    static result<std::unique_ptr<pair>> connect(const config& c, const std::string& to,
                                                 deadline d);
    ~pair();

    const peer_info& peer() const noexcept { return peer_; }
    bool same_host() const noexcept { return peer_.host_id == self_.host_id; }
    const std::string& address() const noexcept { return address_; }
    bool client() const noexcept { return !listener_; }
    const config& settings() const noexcept { return config_; }
    waiter& sleeper() noexcept { return *waiter_; }

    /// A blob for the peer's receive(). Does not wait for it.
    status send(std::span<const std::byte> blob);
    /// The next blob of the peer, nothing when none has come by `d`.
    result<std::optional<bytes>> receive(deadline d);

    /// Both ends call it. `transport`: auto, shm, tcp; the client's choice counts, and a server that
    /// was given another than auto refuses a different one.
    result<std::unique_ptr<rdma::endpoint>> open(const std::string& transport, deadline d);

private:
    friend class pair_listener;
    explicit pair(const config& c);

    status begin(fd socket, const std::string& address, deadline d);
    void look(int timeout_ms);
    result<frame> await(uint16_t type, deadline d);
    status lost() const;
    std::string name() const;

    result<std::string> choose(const std::string& transport) const;
    result<std::unique_ptr<rdma::endpoint>> ask(const std::string& transport, deadline d);
    result<std::unique_ptr<rdma::endpoint>> answer(const std::string& transport, deadline d);
    result<std::vector<fd>> dial(const std::string& transport, uint32_t count, deadline d);
    result<std::vector<fd>> collect(const std::string& transport, uint32_t count, deadline d);
    result<std::unique_ptr<rdma::endpoint>> build(const std::string& transport,
                                                  std::vector<fd> sockets);

    config config_;
    secret key_{};
    peer_info self_, peer_;
    std::string address_;  // of the peer's end of the control connection
    group_id session_{};
    poller own_poller_;
    pair_listener* listener_ = nullptr;  // of a server; outlives it
    std::unique_ptr<connection> line_;
    std::unique_ptr<dialer> dialer_;
    std::unique_ptr<waiter> waiter_;
    std::vector<endpoint> server_;  // where the client dials
    std::deque<frame> frames_;
    uint16_t opened_ = 0;
};

}  // namespace ef
