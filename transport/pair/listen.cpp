// The server's side of a pair: listening, and one client at a time.
#include "transport/bootstrap/key.hpp"
#include "transport/pair/pair.hpp"
#include "transport/pair/wire.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sodium.h>
#include <unistd.h>

#include <cerrno>

namespace ef {
namespace {

endpoint any_address(int family, uint16_t port) {
    endpoint e;
    e.address.ss_family = sa_family_t(family);
    e.bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    e.set_port(port);
    return e;
}

/// Where ":18515" or "host:18515" listens. Every address: IPv6 first, so that its error, the less
/// interesting one, can be let go.
result<std::vector<endpoint>> listening_places(const std::string& at) {
    if (!at.starts_with(':')) return resolve(at, "address");
    const result<host_port> hp = parse_host_port("0.0.0.0" + at, "address");
    if (!hp.ok()) return hp.why();
    const auto port = uint16_t(std::stoul(hp->port));
    return std::vector<endpoint>{any_address(AF_INET, port), any_address(AF_INET6, port)};
}

}  // namespace

result<secret> pair_secret(const config& c) {
    if (sodium_init() < 0) return status(EF_SYSTEM, "libsodium: no source of random numbers");
    const result<std::string> text = configured_key(c);
    if (!text.ok()) return text.why();
    return derive_key(text->empty() ? std::string("no key") : *text, "pair 1");
}

pair_listener::pair_listener(const config& c, const secret& key) : config_(c), key_(key) {
    listener_ = std::make_unique<listener>(poller_, key_,
                                           [this](const hello_message& h) { return judge(h); });
}

verdict_code pair_listener::judge(const hello_message& h) const {
    if (h.sequence != pair_sequence) return verdict_other;
    if (h.purpose == for_control) return busy_ ? verdict_other : verdict_accepted;
    const bool ours =
        h.purpose == for_data && busy_ && memcmp(h.group, session_.data(), session_.size()) == 0;
    return ours ? verdict_accepted : verdict_other;
}

status pair_listener::listen(const std::string& at, int listen_fd) {
    if (status s = poller_.open(); !s.ok()) return s;
    if (listen_fd > 0) {
        fd own(fcntl(listen_fd, F_DUPFD_CLOEXEC, 0));
        if (!own) return system_error("duplicating the listening socket", errno);
        fcntl(own.get(), F_SETFL, O_NONBLOCK);
        address_ = local_end(own.get()).text();
        if (status s = listener_->add(std::move(own), false); !s.ok()) return s;
    } else {
        result<std::vector<endpoint>> places = listening_places(at);
        if (!places.ok()) return places.why();
        uint16_t port = 0;
        for (endpoint& e : *places) {
            if (port) e.set_port(port);  // port 0: the same one in both families
            result<fd> s = listen_on(e);
            if (!s.ok()) {
                if (!address_.empty()) continue;  // no IPv6 here
                return s.why();
            }
            if (address_.empty()) {
                address_ = local_end(s->get()).text();
                port = local_end(s->get()).port();
            }
            if (status added = listener_->add(std::move(*s), false); !added.ok()) return added;
        }
    }
    unix_name_ = "eflops-pair-" + random_key().substr(0, 32);
    result<fd> near = listen_on(abstract_unix(unix_name_));
    if (!near.ok()) return near.why();
    return listener_->add(std::move(*near), true);
}

result<std::unique_ptr<pair_listener>> pair_listener::open(const config& c, const std::string& at,
                                                           int listen_fd) {
    const result<secret> key = pair_secret(c);
    if (!key.ok()) return key.why();
    std::unique_ptr<pair_listener> l(new pair_listener(c, *key));
    if (status s = l->listen(at, listen_fd); !s.ok()) return s;
    return l;
}

void pair_listener::look(int timeout_ms) {
    for (const epoll_event& e : poller_.wait(timeout_ms)) listener_->ready(e.data.fd);
    listener_->tick(now_ns());
    for (arrival a; listener_->next(a);) {
        poller_.remove(a.socket.get());
        if (a.hello.purpose == for_data) data_.push_back(std::move(a));
        else if (!caller_ && !busy_) caller_ = std::move(a);
    }
}

result<std::unique_ptr<pair>> pair_listener::accept(deadline d) {
    if (busy_) return status(EF_INVALID, "the listener has a client: destroy its pair first");
    while (!caller_) {
        if (d.passed()) return status(EF_TIMEOUT, fmt::format("{}: no client has come", address_));
        look(d.left_ms(1000));
    }
    arrival a = std::move(*caller_);
    caller_.reset();
    data_.clear();
    randombytes_buf(session_.data(), session_.size());
    busy_ = true;
    std::unique_ptr<pair> p(new pair(config_));
    p->listener_ = this;
    p->session_ = session_;
    p->self_.unix_name = unix_name_;
    if (status s = p->begin(std::move(a.socket), a.address, d); !s.ok()) return s;
    return p;
}

}  // namespace ef
