// What can be done to a lab that is up. The lab's file is read anew under the lock, changed after
// the kernel has been, and so says what the kernel does.
#include "tools/lab/lab.hpp"
#include "tools/lab/lab_file.hpp"
#include "tools/lab/namespaces.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <set>

namespace ef::lab {

using namespace fabric;

namespace {

/// "U0-L1": some names, not all, for a message.
std::string some_links(const graph& g) {
    std::string text;
    for (link_id l = 0; l < g.links().size() && l < 4; ++l) text += " " + g.text_of(l);
    return text + (g.links().size() > 4 ? " .." : "");
}

}  // namespace

status lab::inject(std::string_view where, const fault& f) {
    result<lab_lock> lock = lab_lock::take();
    if (!lock.ok()) return lock.why();
    result<lab> now = lab_file::load(how_.name);
    if (!now.ok()) return now.why();
    *this = std::move(*now);
    if (f.what == fault_kind::pause || f.what == fault_kind::resume || f.what == fault_kind::kill)
        return signal_host(where, f.what);
    if (f.what == fault_kind::lossy && !(f.amount >= 0 && f.amount <= 100))
        return status(EF_INVALID, fmt::format("lossy {:g}: 0 to 100 percent", f.amount));
    if (f.what == fault_kind::slow && !(f.amount >= 0.1 && f.amount <= 100'000))
        return status(EF_INVALID, fmt::format("slow {:g}: 0.1 to 100000 Mbit/s", f.amount));
    const bool cuts = f.what == fault_kind::down || f.what == fault_kind::up;
    if (cuts && f.one_way)
        return status(EF_INVALID, "a cable is up or down in both directions, not in one");
    result<std::vector<link_id>> links = cables_of(where, f.one_way);
    if (!links.ok()) return links.why();
    status s = inject_cables(*links, f);
    if (s.ok() && cuts && f.reroute) s = reroute();
    // Also after a failure: some of it may have been done.
    const status saved = lab_file::save(*this);
    return s.ok() ? saved : s;
}

result<std::vector<link_id>> lab::cables_of(std::string_view where, bool one_way) const {
    std::vector<link_id> links;
    for (link_id l = 0; l < net_.links().size(); ++l) {
        const link& e = net_.edge(l);
        // Without a lane: all lanes.
        if (net_.text_of(l) == where || net_.at(e.from).name + "-" + net_.at(e.to).name == where)
            links.push_back(l);
    }
    if (links.empty())
        if (const node_id n = net_.find(where); n != none)
            links.assign(net_.out(n).begin(), net_.out(n).end());
    if (links.empty())
        return status(EF_INVALID,
                      fmt::format("{}: neither a link nor a host or switch; links are:{}", where,
                                  some_links(net_)));
    if (one_way) return links;
    for (size_t i = 0, n = links.size(); i < n; ++i) links.push_back(net_.edge(links[i]).reverse);
    return links;
}

status lab::inject_cables(const std::vector<link_id>& links, const fault& f) {
    for (const link_id l : links) {
        link_condition to = condition_[l];
        if (f.what == fault_kind::down) to.up = false;
        if (f.what == fault_kind::up) to = {true, built_mbit(l), 0};
        if (f.what == fault_kind::slow) to.mbit = f.amount;
        if (f.what == fault_kind::lossy) to.loss_percent = f.amount;
        if (status s = set_link(l, to); !s.ok()) return s;
    }
    if (f.what != fault_kind::up) return {};
    for (const link_id l : links) {
        const node_id n = net_.edge(l).from;
        result<netlink> at = netlink_of(n);
        if (!at.ok()) return at.why();
        status s = wait_running(*at, {&l, 1});
        // A host loses its route with its link, and no protocol gives it back.
        if (s.ok() && net_.at(n).kind == node_kind::host) s = set_routes(n, *at, {});
        if (!s.ok()) return s.in(net_.at(n).name);
    }
    return {};
}

status lab::set_link(link_id l, const link_condition& to) {
    link_condition& was = condition_[l];
    if (was == to) return {};
    const node_id n = net_.edge(l).from;
    result<netlink> at = netlink_of(n);
    if (!at.ok()) return at.why();
    const int i = plan_.index_of(l);
    status s;
    if (was.mbit != to.mbit)
        s = at->set_shape(i, {uint64_t(std::llround(to.mbit * 1e6 / 8)),
                              burst_of(how_, built_mbit(l)), how_.queue_bytes});
    if (s.ok() && was.loss_percent != to.loss_percent) s = at->set_loss(i, to.loss_percent);
    if (s.ok() && was.up != to.up) s = at->set_up(i, to.up);
    if (!s.ok()) return s.in(net_.text_of(l));
    was = to;
    net_.set_up(l, to.up);
    return {};
}

status lab::signal_host(std::string_view host, fault_kind what) const {
    const node_id n = net_.find(host);
    if (n == none || net_.at(n).kind != node_kind::host)
        return status(EF_INVALID, fmt::format("{}: not a host; hosts are: {} .. {}", host,
                                              net_.at(net_.hosts().front()).name,
                                              net_.at(net_.hosts().back()).name));
    result<fd> ns = open_namespace(namespace_name(n));
    if (!ns.ok()) return ns.why().in(host);
    const std::set<ino_t> here{identity_of_namespace(ns->get())};
    const std::vector<pid_t> pids = processes_in(here);
    if (pids.empty()) return status(EF_INVALID, fmt::format("{}: no process runs there", host));
    if (what == fault_kind::kill) return kill_processes_in(here, 10'000).in(host);
    for (const pid_t p : pids)
        if (kill(p, what == fault_kind::pause ? SIGSTOP : SIGCONT) != 0 && errno != ESRCH)
            return system_error(fmt::format("{}: process {}", host, p), errno);
    return {};
}

}  // namespace ef::lab
