// line: the control connection of a verbs channel, an authenticated socket over which lanes are set up
// and taken down, and whose end says that the peer has gone. Never blocks.
#pragma once

#include "transport/base/bytes.hpp"
#include "transport/base/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ef::verbs {

struct line_header {
    le<uint32_t> magic;
    le<uint32_t> bytes;  // of what follows
    le<uint16_t> type;
    le<uint16_t> lane;
};
static_assert(sizeof(line_header) == 12);

struct line_frame {
    uint16_t type = 0, lane = 0;
    std::vector<std::byte> payload;
};

class line {
public:
    explicit line(fd socket) noexcept : socket_(std::move(socket)) {}

    int socket() const noexcept { return socket_.get(); }
    template <class T>
    void send(uint16_t type, uint16_t lane, const T& payload) {
        send(type, lane, &payload, sizeof(T));
    }
    void send(uint16_t type, uint16_t lane) { send(type, lane, nullptr, 0); }
    void send(uint16_t type, uint16_t lane, const void* payload, size_t bytes);
    /// Move what the socket takes and gives.
    void step();
    /// The next whole frame. False: none yet.
    bool next(line_frame& f);
    /// It has ended; frames that came before may still be there.
    bool broken() const noexcept { return broken_; }
    const std::string& why() const noexcept { return why_; }
    bool delivered() const noexcept;

private:
    void flush();
    void end(std::string why);

    fd socket_;
    std::vector<std::byte> in_, out_;
    bool broken_ = false;
    std::string why_;
};

}  // namespace ef::verbs
