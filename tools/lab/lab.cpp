// A lab that is up: its parts found by their names, its counters, its routes.
#include "tools/lab/lab.hpp"

#include "tools/lab/lab_file.hpp"
#include "tools/lab/namespaces.hpp"

#include <fmt/core.h>

#include <map>

namespace ef::lab {

using namespace fabric;

result<lab> lab::open(const std::string& name) {
    if (status s = check_name(name); !s.ok()) return s;
    if (!lab_file::exists(name)) {
        std::string others;
        for (const std::string& n : all()) others += (others.empty() ? ": " : ", ") + n;
        return status(EF_INVALID, fmt::format("lab {} is not up; {}", name,
                                              others.empty() ? "none is" : "there is" + others));
    }
    result<lab> l = lab_file::load(name);
    if (l.ok() && !l->finished_)
        return status(EF_INVALID, fmt::format("lab {} was not finished; take it down", name));
    return l;
}

double lab::built_mbit(link_id l) const noexcept {
    const double unit = net_.edge(net_.uplink(net_.hosts()[0])).gbps;
    return how_.host_mbit * net_.edge(l).gbps / unit;
}

std::string lab::fabric_file() const { return lab_file::fabric_path(how_.name); }

status lab::inside(node_id n, const std::function<status()>& body) const {
    result<fd> ns = open_namespace(namespace_name(n));
    if (!ns.ok()) return ns.why().in(net_.at(n).name);
    return in_namespace(ns->get(), body);
}

result<netlink> lab::netlink_of(node_id n) const {
    result<netlink> at = status(EF_SYSTEM, "not opened");
    const status s = inside(n, [&]() -> status {
        at = netlink::open();
        return at.why();
    });
    if (!s.ok()) return s;
    return at;
}

// ---------------------------------------------------------------- counters

result<std::vector<traffic>> lab::raw_counters() const {
    std::vector<traffic> all(net_.links().size());
    for (node_id n = 0; n < net_.nodes().size(); ++n) {
        result<netlink> at = netlink_of(n);
        if (!at.ok()) return at.why();
        result<std::map<int, traffic>> sent = at->sent();
        if (!sent.ok()) return sent.why().in(net_.at(n).name);
        for (const link_id l : net_.out(n)) all[l] = (*sent)[plan_.index_of(l)];
    }
    return all;
}

result<std::vector<traffic>> lab::counters() const {
    // Another process may have reset them.
    result<lab> now = lab_file::load(how_.name);
    if (!now.ok()) return now.why();
    result<std::vector<traffic>> all = raw_counters();
    if (!all.ok()) return all;
    for (link_id l = 0; l < all->size(); ++l) {
        traffic& t = (*all)[l];
        const traffic& b = now->base_[l];
        // The drops of a loss that has ended went with it.
        const auto since = [](uint64_t a, uint64_t from) { return a > from ? a - from : 0; };
        t = {since(t.bytes, b.bytes), since(t.packets, b.packets),
             since(t.dropped_packets, b.dropped_packets)};
    }
    return all;
}

status lab::reset_counters() {
    result<lab_lock> lock = lab_lock::take();
    if (!lock.ok()) return lock.why();
    result<lab> now = lab_file::load(how_.name);
    if (!now.ok()) return now.why();
    result<std::vector<traffic>> all = now->raw_counters();
    if (!all.ok()) return all.why();
    *this = std::move(*now);
    base_ = std::move(*all);
    return lab_file::save(*this);
}

// ---------------------------------------------------------------- routes

status lab::set_routes(node_id n, netlink& at, const forwarding_table& table) const {
    if (net_.at(n).kind == node_kind::host) {
        const link_id up = net_.uplink(n);
        const next_hop hop{plan_.receiver(net_, up), plan_.index_of(up)};
        return net_.edge(up).up ? at.replace_route(0, 0, {&hop, 1}) : status();
    }
    for (const auto& [to, links] : table) {
        std::vector<next_hop> via;
        for (const link_id l : links) via.push_back({plan_.receiver(net_, l), plan_.index_of(l)});
        const status s = via.empty() ? at.delete_route(plan_.behind(to), 16)
                                     : at.replace_route(plan_.behind(to), 16, via);
        if (!s.ok()) return s.in("to " + net_.at(to).name);
    }
    return {};
}

status lab::reroute() const {
    const std::vector<forwarding_table> tables = forwarding_of(net_);
    for (const node_id n : net_.switches()) {
        result<netlink> at = netlink_of(n);
        if (!at.ok()) return at.why();
        if (status s = set_routes(n, *at, tables[n]); !s.ok()) return s.in(net_.at(n).name);
    }
    return {};
}

}  // namespace ef::lab
