// Whatever bytes a peer sends, in whatever portions and over however many connections: the channel
// shows messages or says what is wrong, and writes nowhere but into the message.
#include "transport/tcp/inbox.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

using namespace ef;

// Longer messages are left at the head: the input cannot hold them anyway.
constexpr size_t most_fetched = 1 << 20;

struct input {
    const uint8_t* at;
    size_t left;
    uint8_t next() {
        if (!left) return 0;
        --left;
        return *at++;
    }
};

struct wires {
    std::vector<int> ours, theirs;
    explicit wires(size_t n) {
        for (size_t i = 0; i < n; ++i) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) abort();
            ours.push_back(pair[0]);
            theirs.push_back(pair[1]);
        }
    }
    ~wires() {
        for (int s : ours) close(s);
        for (int s : theirs)
            if (s >= 0) close(s);
    }
};

void require(bool good) {
    if (!good) abort();
}

class reader {
public:
    explicit reader(tcp::inbox& in) : in_(in) {}
    void step() {
        message m, again;
        if (!in_.peek(m)) return;
        require(in_.peek(again) && again.tag == m.tag && again.bytes == m.bytes &&
                again.view == m.view);
        require(m.bytes <= tcp::max_message);
        if (m.view) {
            require(reinterpret_cast<uintptr_t>(m.view) % 8 == 0);
            for (size_t i = 0; i < m.bytes; ++i) sum_ = uint8_t(sum_ + uint8_t(m.view[i]));
        } else {
            if (m.bytes > most_fetched) return;
            landing_.resize(m.bytes);
            const size_t there = in_.fetch(landing_.data());
            require(there >= before_ && there <= m.bytes);
            before_ = there;
            if (there < m.bytes) return;
            before_ = 0;
        }
        in_.release();
    }

private:
    tcp::inbox& in_;
    std::vector<std::byte> landing_;
    size_t before_ = 0;
    volatile uint8_t sum_ = 0;
};

// A message as a peer would send it, so that the fuzzer gets behind the first header.
void put_header(int socket, uint32_t seq, uint64_t bytes) {
    tcp::header h;
    h.magic = tcp::wire_magic;
    h.version = tcp::wire_version;
    h.seq = seq;
    h.tag = seq;
    h.bytes = bytes;
    (void)!write(socket, &h, sizeof h);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    input in{data, size};
    const size_t lanes = 1 + in.next() % 3;
    wires w(lanes);
    tcp::inbox inbox(w.ours);
    reader r(inbox);
    uint32_t seq = 0;
    while (in.left && (!inbox.failed())) {
        const uint8_t what = in.next();
        const int socket = w.theirs[what / 8 % lanes];
        switch (what % 8) {
        case 0: {  // raw bytes of the input
            const size_t n = std::min<size_t>(in.next(), in.left);
            if (socket >= 0) (void)!write(socket, in.at, n);
            in.at += n;
            in.left -= n;
            break;
        }
        case 1:  // many bytes
            if (socket >= 0) {
                const std::vector<uint8_t> same(size_t(in.next()) * 300, what);
                (void)!write(socket, same.data(), same.size());
            }
            break;
        case 2:
        case 3:  // a good header
            if (w.theirs[0] >= 0) {
                const uint64_t low = in.next();
                put_header(w.theirs[0], seq++, low << in.next() % 33);
            }
            break;
        case 4:
            if (socket >= 0) close(socket);
            w.theirs[what / 8 % lanes] = -1;
            break;
        default:
            r.step();
        }
    }
    for (int i = 0; i < 8; ++i) r.step();
    if (inbox.failed()) require(!inbox.why().empty());
    return 0;
}
