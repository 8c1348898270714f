// The two ends of the handshake (handshake_wire.hpp) as state machines over a non-blocking socket.
// Both read exactly the bytes of the handshake, so that what follows belongs to the connection's
// user.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"
#include "transport/bootstrap/handshake_wire.hpp"
#include "transport/bootstrap/launcher.hpp"

#include <functional>
#include <string>

namespace ef {

/// mac of a hello, and of a verdict, under `key`.
void sign_hello(const secret& key, const challenge_message& c, hello_message& h);
bool proves_key(const secret& key, const challenge_message& c, const hello_message& h);
void sign_verdict(const secret& key, const challenge_message& c, const hello_message& h,
                  verdict_message& v);
bool proves_key(const secret& key, const challenge_message& c, const hello_message& h,
                const verdict_message& v);

enum class shake : uint8_t { pending, done, dropped, refused };

/// The accepting end.
class inbound {
public:
    /// `judge` says verdict_accepted or verdict_other of a hello that has proved the key.
    using judge = std::function<verdict_code(const hello_message&)>;
    explicit inbound(fd socket);

    shake step(const secret& key, const judge& j);
    const hello_message& hello() const noexcept { return hello_; }
    int socket() const noexcept { return socket_.get(); }
    fd take() noexcept { return std::move(socket_); }
    /// Why it was dropped or refused.
    const std::string& why() const noexcept { return why_; }

private:
    shake drop(std::string why);
    shake decide(const secret& key, const judge& j);

    fd socket_;
    challenge_message challenge_;
    hello_message hello_;
    size_t got_ = 0;
    bool greeted_ = false;
    std::byte in_[sizeof(hello_message)] = {};
    std::string why_;
};

/// The dialling end, from the moment its socket is connected.
class outbound {
public:
    explicit outbound(const hello_message& what) : hello_(what) {}
    /// dropped: the connection broke or the other end serves another group (dial again);
    /// refused: error() says why for good.
    shake step(int socket, const secret& key);
    const status& error() const noexcept { return error_; }

private:
    shake give_up(ef_status_t code, std::string why);
    shake answer(int socket, const secret& key);
    shake judge_verdict(const secret& key);

    hello_message hello_;
    challenge_message challenge_;
    verdict_message verdict_;
    bool answered_ = false;
    size_t got_ = 0;
    std::byte in_[sizeof(challenge_message)] = {};
    status error_;
};

}  // namespace ef
