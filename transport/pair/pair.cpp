#include "transport/pair/pair.hpp"

#include "transport/bootstrap/identity.hpp"
#include "transport/pair/wire.hpp"

#include <fmt/core.h>

#include <cerrno>

namespace ef {

pair::pair(const config& c) : config_(c), self_(describe_self(c)) {}

pair::~pair() {
    if (!listener_) return;
    listener_->busy_ = false;
    listener_->data_.clear();
}

std::string pair::name() const {
    if (peer_.host.empty()) return address_;
    return fmt::format("{} (pid {}, {})", peer_.host, peer_.pid, address_);
}

status pair::lost() const {
    return status(EF_PEER_LOST, fmt::format("{}: {}", name(), line_->why()));
}

result<std::unique_ptr<pair>> pair::connect(const config& c, const std::string& to, deadline d) {
    const result<secret> key = pair_secret(c);
    if (!key.ok()) return key.why();
    std::unique_ptr<pair> p(new pair(c));
    p->key_ = *key;
    if (status s = p->own_poller_.open(); !s.ok()) return s;
    result<std::vector<endpoint>> at = resolve(to, "server");
    if (!at.ok()) return at.why();
    p->server_ = *at;
    p->dialer_ = std::make_unique<dialer>(p->own_poller_, p->key_);
    hello_message h;
    h.purpose = for_control;
    h.count = 1;
    h.from = 1;
    h.nranks = 2;
    h.sequence = pair_sequence;
    p->dialer_->add({h, *at, "server " + to, d});
    for (dialled up;;) {
        if (p->dialer_->next(up)) {
            if (!up.why.ok()) return up.why;
            endpoint far;
            far.bytes = sizeof(far.address);
            getpeername(up.socket.get(), far.get(), &far.bytes);
            p->server_ = {far};  // its data sockets are where it answered
            p->own_poller_.remove(up.socket.get());
            if (status s = p->begin(std::move(up.socket), far.text(), d); !s.ok()) return s;
            return p;
        }
        p->look(d.left_ms(20));
    }
}

status pair::begin(fd socket, const std::string& address, deadline d) {
    result<waiter> w = waiter::create();
    if (!w.ok()) return w.why();
    waiter_ = std::make_unique<waiter>(std::move(*w));
    if (own_poller_.get() < 0)
        if (status s = own_poller_.open(); !s.ok()) return s;
    address_ = address;
    line_ = std::make_unique<connection>(own_poller_, std::move(socket), client() ? 0 : 1, address);
    line_->send(
        pair_hello,
        writer().raw(std::as_bytes(std::span(session_))).raw(write_peer_info(self_)).take());
    result<frame> f = await(pair_hello, d);
    if (!f.ok()) return f.why();
    const std::span<const std::byte> all(f->payload);
    if (all.size() < session_.size() || !parse_peer_info(all.subspan(session_.size()), peer_))
        return status(EF_MISMATCH, fmt::format("{}: its hello is malformed", address_));
    if (client()) memcpy(session_.data(), all.data(), session_.size());
    return {};
}

void pair::look(int timeout_ms) {
    const uint64_t now = now_ns();
    for (const epoll_event& e :
         own_poller_.wait(dialer_ && timeout_ms ? dialer_->due_ms(now, timeout_ms) : timeout_ms)) {
        if (line_ && line_->socket() == e.data.fd) line_->step();
        else if (dialer_) dialer_->ready(e.data.fd, e.events);
    }
    if (dialer_) dialer_->tick(now_ns());
    for (frame f; line_ && line_->next(f);) frames_.push_back(std::move(f));
}

result<frame> pair::await(uint16_t type, deadline d) {
    for (;;) {
        for (auto f = frames_.begin(); f != frames_.end(); ++f) {
            const bool refused = f->type == pair_refusal && type != pair_hello;
            if (f->type != type && !refused) continue;
            frame found = std::move(*f);
            frames_.erase(f);
            if (!refused) return found;
            status why;
            if (!parse_refusal(found.payload, why)) why = status(EF_MISMATCH, "a bad refusal");
            return why.in(name());
        }
        if (line_->broken()) return lost();
        if (d.passed()) return status(EF_TIMEOUT, fmt::format("{}: no answer", name()));
        look(d.left_ms(20));
    }
}

status pair::send(std::span<const std::byte> blob) {
    look(0);
    if (line_->broken()) return lost();
    line_->send(pair_blob, blob);
    return {};
}

result<std::optional<bytes>> pair::receive(deadline d) {
    for (;;) {
        look(0);
        for (auto f = frames_.begin(); f != frames_.end(); ++f) {
            if (f->type != pair_blob) continue;
            bytes blob = std::move(f->payload);
            frames_.erase(f);
            return std::optional(std::move(blob));
        }
        if (line_->broken()) return lost();
        if (d.passed()) return std::optional<bytes>();
        look(d.left_ms(1000));
    }
}

}  // namespace ef
