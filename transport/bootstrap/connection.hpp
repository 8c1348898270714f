// connection: one authenticated control connection that carries frames (control_wire.hpp). Never
// blocks: what the socket does not take waits in a buffer.
#pragma once

#include "transport/bootstrap/control_wire.hpp"
#include "transport/bootstrap/poller.hpp"

namespace ef {

struct frame {
    uint16_t type = 0, round = 0;
    uint32_t serial = 0;
    bytes payload;
};

class connection {
public:
    connection(poller& p, fd socket, rank_t peer, std::string address);
    connection(connection&&) = delete;
    ~connection();

    rank_t peer() const noexcept { return peer_; }
    int socket() const noexcept { return socket_.get(); }
    const std::string& address() const noexcept { return address_; }

    void send(uint16_t type, std::span<const std::byte> payload, uint32_t serial = 0,
              uint16_t round = 0);
    /// Move what can be moved both ways.
    void step();
    /// The next whole frame that has arrived.
    bool next(frame& f);
    bool flushed() const noexcept { return sent_ == out_.size(); }
    /// The peer's kernel has all of it, or never will.
    bool delivered() const noexcept;
    /// It has ended (after all frames that next() still gives), and why.
    bool broken() const noexcept { return broken_; }
    const std::string& why() const noexcept { return why_; }

private:
    void flush();
    void receive();
    void end(std::string why);

    poller& poller_;
    fd socket_;
    rank_t peer_;
    std::string address_;
    bytes in_, out_;
    size_t taken_ = 0, sent_ = 0;  // consumed fronts of in_ and out_
    bool broken_ = false;
    std::string why_;
};

}  // namespace ef
