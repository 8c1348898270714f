// Opening an endpoint between the two: which transport, its sockets, and the soft endpoint on top.
#include "transport/bootstrap/interfaces.hpp"
#include "transport/pair/pair.hpp"
#include "transport/pair/wire.hpp"
#include "transport/shm/channel.hpp"
#include "transport/soft_endpoint.hpp"
#include "transport/tcp/channel.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ef {
namespace {

/// The interface behind this end of a socket; its address where that is not to be found.
std::string interface_of(int socket) {
    const endpoint here = local_end(socket);
    const auto found = choose_interface(here.host(), &here);
    return found.ok() ? found->name : here.host();
}

constexpr uint32_t most_sockets = 16;

}  // namespace

result<std::string> pair::choose(const std::string& transport) const {
    const std::string wanted = transport.empty() ? config_.transport : transport;
    if (wanted.empty() || wanted == "auto") return std::string(same_host() ? "shm" : "tcp");
    if (wanted == "tcp") return wanted;
    if (wanted != "shm")
        return status(EF_UNSUPPORTED,
                      fmt::format("transport {}: this build has auto, shm and tcp", wanted));
    if (same_host()) return wanted;
    return status(EF_UNSUPPORTED, fmt::format("transport shm: {} does not share this host's memory "
                                              "(another host, container or user): use tcp",
                                              name()));
}

result<std::unique_ptr<rdma::endpoint>> pair::open(const std::string& transport, deadline d) {
    return client() ? ask(transport, d) : answer(transport, d);
}

result<std::unique_ptr<rdma::endpoint>> pair::ask(const std::string& transport, deadline d) {
    const result<std::string> chosen = choose(transport);
    if (!chosen.ok()) {
        // The server waits too: it gets the same words.
        line_->send(pair_refusal, write_refusal(chosen.why()));
        return chosen.why();
    }
    const auto count =
        *chosen == "tcp" ? uint32_t(std::max<int64_t>(1, config_.tcp_connections)) : uint32_t(1);
    line_->send(pair_open, writer().text(*chosen).put(count).take());
    result<std::vector<fd>> sockets = dial(*chosen, count, d);
    if (!sockets.ok()) return sockets.why();
    const result<frame> f = await(pair_opened, d);
    if (!f.ok()) return f.why();
    return build(*chosen, std::move(*sockets));
}

result<std::unique_ptr<rdma::endpoint>> pair::answer(const std::string& transport, deadline d) {
    const result<frame> f = await(pair_open, d);
    if (!f.ok()) return f.why();
    reader r(f->payload);
    const std::string asked = r.text();
    const auto count = r.get<uint32_t>();
    if (!r.finished() || count == 0 || count > most_sockets)
        return status(EF_MISMATCH, fmt::format("{}: its open is malformed", name()));
    result<std::string> mine = choose(transport.empty() || transport == "auto" ? asked : transport);
    if (mine.ok() && *mine != asked)
        mine = status(EF_MISMATCH, fmt::format("transport: the client asks for {}, the server was "
                                               "given {}",
                                               asked, *mine));
    if (!mine.ok()) {
        line_->send(pair_refusal, write_refusal(mine.why()));
        return mine.why();
    }
    result<std::vector<fd>> sockets = collect(asked, count, d);
    if (!sockets.ok()) return sockets.why();
    line_->send(pair_opened, {});
    return build(asked, std::move(*sockets));
}

result<std::vector<fd>> pair::dial(const std::string& transport, uint32_t count, deadline d) {
    hello_message h;
    h.purpose = for_data;
    h.lane = ++opened_;
    h.count = uint16_t(count);
    h.from = 1;
    h.nranks = 2;
    h.sequence = pair_sequence;
    memcpy(h.group, session_.data(), session_.size());
    const bool local = transport == "shm";
    for (uint32_t i = 0; i < count; ++i) {
        h.index = uint16_t(i);
        dial_order o{h, server_, "server " + name(), d, 1000};
        if (local) o.to = {abstract_unix(peer_.unix_name)};
        o.local = local;
        dialer_->add(std::move(o));
    }
    std::vector<fd> sockets(count);
    for (uint32_t there = 0; there < count;) {
        for (dialled up; dialer_->next(up); ++there) {
            if (!up.why.ok()) return up.why;
            own_poller_.remove(up.socket.get());
            sockets[up.hello.index] = std::move(up.socket);
        }
        if (there == count) break;
        if (line_->broken()) return lost();
        // A refusal comes instead of a handshake.
        for (const frame& f : frames_)
            if (f.type == pair_refusal) return await(pair_opened, d).why();
        look(d.left_ms(20));
    }
    return sockets;
}

result<std::vector<fd>> pair::collect(const std::string& transport, uint32_t count, deadline d) {
    ++opened_;
    std::vector<fd> sockets(count);
    for (uint32_t there = 0; there < count;) {
        for (arrival& a : listener_->data_) {
            if (!a.socket || a.hello.lane != opened_ || a.hello.index >= count ||
                a.local != (transport == "shm") || sockets[a.hello.index])
                continue;
            sockets[a.hello.index] = std::move(a.socket);
            ++there;
        }
        std::erase_if(listener_->data_, [](const arrival& a) { return !a.socket; });
        if (there == count) break;
        look(0);
        if (line_->broken()) return lost();
        if (d.passed())
            return status(EF_TIMEOUT, fmt::format("{}: {} of its {} data connections have come",
                                                  name(), there, count));
        listener_->look(d.left_ms(20));
    }
    return sockets;
}

result<std::unique_ptr<rdma::endpoint>> pair::build(const std::string& transport,
                                                    std::vector<fd> sockets) {
    peer_name who{client() ? 0 : 1, peer_.host, peer_.pid};
    if (transport == "shm") {
        auto c = make_shm_channel(std::move(who), std::move(sockets[0]), client(),
                                  config_.shm_single_copy, *waiter_);
        if (!c.ok()) return c.why();
        return rdma::make_soft_endpoint(std::move(*c));
    }
    for (const fd& s : sockets) no_delay(s.get());
    std::string medium = "tcp:" + interface_of(sockets[0].get());
    return rdma::make_soft_endpoint(
        make_tcp_channel(std::move(who), std::move(sockets), std::move(medium), *waiter_));
}

}  // namespace ef
