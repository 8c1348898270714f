#include "tools/plan/job.hpp"

#include "affinity/fabric/load.hpp"
#include "perftests/common/exit_code.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>

namespace ef::planning {
namespace {

using perf::failure;

failure usage(const std::string& text) { return failure(perf::exit_usage, text); }
failure failed(const std::string& text) { return failure(perf::exit_failed, text); }

/// Lines without comments and blanks at either end, with their numbers; empty ones are left out.
std::vector<std::pair<size_t, std::string>> lines_of(const std::string& file, const char* option) {
    std::ifstream in(file);
    if (!in) throw failed(fmt::format("{} {}: {}", option, file, strerror(errno)));
    std::vector<std::pair<size_t, std::string>> lines;
    size_t number = 0;
    for (std::string l; std::getline(in, l);) {
        ++number;
        l.erase(std::min(l.find('#'), l.size()));
        const size_t first = l.find_first_not_of(" \t\r"), last = l.find_last_not_of(" \t\r");
        if (first != std::string::npos)
            lines.emplace_back(number, l.substr(first, last - first + 1));
    }
    if (in.bad() || !in.eof()) throw failed(fmt::format("{} {}: cannot be read", option, file));
    if (lines.empty()) throw failed(fmt::format("{} {}: names nothing", option, file));
    return lines;
}

template <class T>
bool parse_number(std::string_view text, T& to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    return error == std::errc() && end == text.data() + text.size();
}

/// Hosts by what a file may call them: name, address, and server. A server that has several hosts
/// gives them in turn, by rail.
class host_names {
public:
    explicit host_names(const fabric::graph& g) {
        for (uint32_t i = 0; i < g.hosts().size(); ++i) {
            const fabric::node& h = g.at(g.hosts()[i]);
            exact_.emplace(h.name, i);
            if (!h.address.empty()) exact_.emplace(h.address, i);
            if (!h.server.empty()) servers_[h.server].push_back(i);
        }
        for (auto& [name, hosts] : servers_)
            std::stable_sort(hosts.begin(), hosts.end(), [&](uint32_t a, uint32_t b) {
                return g.at(g.hosts()[a]).rail < g.at(g.hosts()[b]).rail;
            });
    }

    /// fabric::none if there is no such host.
    uint32_t find(const std::string& name) {
        if (const auto it = exact_.find(name); it != exact_.end()) return it->second;
        const auto it = servers_.find(name);
        if (it == servers_.end()) return fabric::none;
        return it->second[turn_[name]++ % it->second.size()];
    }

private:
    std::map<std::string, uint32_t> exact_;
    std::map<std::string, std::vector<uint32_t>> servers_;
    std::map<std::string, size_t> turn_;
};

/// A line per rank with its host, or lines "rank 0=host slot=0" in any order.
mapping::placement read_place(const std::string& file, const fabric::graph& g) {
    const auto lines = lines_of(file, "--place");
    std::vector<std::string> host(lines.size());
    std::vector<size_t> at(lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
        const auto& [number, text] = lines[i];
        const auto wrong = [&, n = number](const std::string& why) {
            return failed(fmt::format("--place {} line {}: {}", file, n, why));
        };
        size_t rank = i;
        std::string name = text;
        if (text.starts_with("rank ")) {
            const size_t equals = text.find('=');
            if (equals == std::string::npos ||
                !parse_number(std::string_view(text).substr(5, equals - 5), rank))
                throw wrong(fmt::format("\"{}\" is not \"rank N=HOST slot=N\"", text));
            name = text.substr(equals + 1, text.find(' ', equals) - equals - 1);
            if (rank >= lines.size())
                throw wrong(fmt::format("rank {} of {} ranks", rank, lines.size()));
        }
        if (name.empty() || name.find_first_of(" \t") != std::string::npos)
            throw wrong(fmt::format("\"{}\" is not the name of a host", name));
        if (!host[rank].empty())
            throw wrong(fmt::format("rank {} is on line {} already", rank, at[rank]));
        host[rank] = name;
        at[rank] = number;
    }
    host_names names(g);
    mapping::placement where;
    for (size_t r = 0; r < host.size(); ++r) {
        const uint32_t h = names.find(host[r]);
        if (h == fabric::none)
            throw failed(fmt::format("--place {} line {}: {} has no host \"{}\"", file, at[r],
                                     g.name, host[r]));
        where.push_back(h);
    }
    return where;
}

mapping::placement first_hosts(const options& o, const fabric::graph& g) {
    const size_t n = o.who.ranks > 0 ? size_t(o.who.ranks) : g.hosts().size();
    if (n > g.hosts().size())
        throw usage(fmt::format("--ranks {}: {} has {} hosts; --place can put several ranks on one",
                                n, g.name, g.hosts().size()));
    mapping::placement where(n);
    std::iota(where.begin(), where.end(), 0u);
    return where;
}

rank_order read_order(const std::string& file, rank_t nranks) {
    const auto lines = lines_of(file, "--order");
    rank_order order;
    std::vector<size_t> at(size_t(nranks), 0);
    for (const auto& [number, text] : lines) {
        rank_t r = -1;
        const auto wrong = [&, n = number](const std::string& why) {
            return failed(fmt::format("--order {} line {}: {}", file, n, why));
        };
        if (!parse_number(text, r) || r < 0 || r >= nranks)
            throw wrong(fmt::format("\"{}\" is not a rank, 0 .. {}", text, nranks - 1));
        if (at[size_t(r)] != 0)
            throw wrong(fmt::format("rank {} is on line {} already", r, at[size_t(r)]));
        at[size_t(r)] = number;
        order.order.push_back(r);
    }
    if (order.order.size() != size_t(nranks))
        throw failed(
            fmt::format("--order {}: names {} of {} ranks", file, order.order.size(), nranks));
    return order;
}

std::vector<int> servers_of(const job& j) {
    std::map<std::string, int> index;
    std::vector<int> out;
    for (rank_t r = 0; r < j.nranks(); ++r)
        out.push_back(index.try_emplace(j.server(r), int(index.size())).first->second);
    return out;
}

void apply_order(const options& o, job& j) {
    const std::string& order = o.who.order;
    if (order.empty() || order == "block") {
        j.order_says = o.who.place.empty() ? "block order" : "as placed";
        return;
    }
    rank_order by;
    if (order == "hdrm" || order == "ring") {
        const rank_maps maps = mapping::make_maps(j.net, j.where, servers_of(j));
        by = order == "hdrm" ? maps.halving : maps.ring;
        j.order_says = order == "hdrm" ? maps.halving_says : maps.ring_says;
        if (by.empty())
            throw failed(
                fmt::format("--order {}: there is none of these ranks on {}", order, j.net.name));
    } else if (order == "random") {
        by = mapping::random_order(j.nranks(), o.plan.seed);
        j.order_says = fmt::format("random order, seed {}", o.plan.seed);
    } else if (struct stat s; stat(order.c_str(), &s) != 0) {
        throw usage(fmt::format("--order {}: neither hdrm, ring, block or random nor a file: {}",
                                order, strerror(errno)));
    } else {
        by = read_order(order, j.nranks());
        j.order_says = "order of " + order;
    }
    j.where = mapping::placed_by(by, j.where);
}

/// A cable by the name of either direction, or a switch.
void take_down(fabric::graph& g, const std::string& name) {
    if (const fabric::node_id n = g.find(name); n != fabric::none) {
        if (g.at(n).kind == fabric::node_kind::host)
            throw usage(fmt::format("--fail {}: is a host; name its link, {}", name,
                                    g.text_of(g.uplink(n))));
        g.set_switch_up(n, false);
        return;
    }
    bool found = false;  // without a lane: all lanes of the pair
    for (fabric::link_id l = 0; l < g.links().size(); ++l) {
        const std::string text = g.text_of(l);
        if (text != name && !text.starts_with(name + "/")) continue;
        g.set_up(l, false);
        found = true;
    }
    if (found) return;
    std::string example;
    if (!g.links().empty()) example = fmt::format(", such as {}", g.text_of(0));
    throw usage(
        fmt::format("--fail {}: {} has no such link{}, and no such switch", name, g.name, example));
}

}  // namespace

plan_request job::request(ef_collective_t coll) const {
    plan_request r;
    r.coll = coll;
    r.nranks = nranks();
    r.host_of = host_of;
    r.maps = &maps;
    r.sync = sync_policy::pair;
    return r;
}

fabric::routes job::routes(const plan_options& o) const {
    fabric::route_rule rule;
    rule.how = o.routing == "static" ? fabric::balance::by_destination : fabric::balance::hash;
    rule.seed = o.seed;
    return fabric::routes(net, rule);
}

std::string job::server(rank_t r) const {
    const fabric::node& h = host(r);
    return h.server.empty() ? h.name : h.server;
}

fabric::graph load_net(const std::string& text, const std::vector<std::string>& fail) {
    result<fabric::graph> g = fabric::load_fabric(text);
    if (!g.ok()) {
        struct stat s;
        const bool file = stat(text.c_str(), &s) == 0;
        throw failure(
            file || text.find(':') == std::string::npos ? perf::exit_failed : perf::exit_usage,
            std::string(g.why().text()));
    }
    if (g->name.empty()) g->name = text;
    if (g->hosts().empty()) throw failed(fmt::format("{}: has no hosts", text));
    for (const std::string& name : fail) take_down(*g, name);
    return std::move(*g);
}

std::unique_ptr<job> make_job(const options& o) {
    auto j = std::make_unique<job>();
    j->net = load_net(o.fabrics.front(), o.fail);
    j->where = o.who.place.empty() ? first_hosts(o, j->net) : read_place(o.who.place, j->net);
    apply_order(o, *j);
    j->host_of = servers_of(*j);
    j->maps = mapping::make_maps(j->net, j->where, j->host_of);
    return j;
}

const algorithm& chosen_algorithm(const options& o, const job& j) {
    const bool ordered = !o.who.order.empty();
    std::string name = o.plan.algorithm;
    if (name.empty()) {
        name = ordered ? "halving_doubling" : "hdrm";
        if (o.plan.coll == EF_BROADCAST) name = "double_tree";
    }
    const algorithm* a = find_algorithm(name);
    if (!a) {
        std::string names;
        for (const algorithm& known : algorithms())
            names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
        throw usage(fmt::format("--algorithm: \"{}\" is none of {}", name, names));
    }
    if (!a->accepts(j.request(o.plan.coll)))
        throw usage(fmt::format("--algorithm {}: does not serve {} on these {} ranks of {}", name,
                                collective_name(o.plan.coll), j.nranks(), j.net.name));
    return *a;
}

traffic traffic_of(const algorithm& a, const plan_request& like, bool exact) {
    traffic t;
    const auto build = [&](rank_t r) {
        plan_request mine = like;
        mine.rank = r;
        return a.build(mine);
    };
    // Reading costs about 50 ns per move.
    constexpr size_t most_moves = 100'000'000;
    const bool declared = a.symmetric && a.symmetric(like) != symmetry::none;
    t.by_symmetry =
        declared && (!exact || build(0).moves.size() * size_t(like.nranks) > most_moves);
    t.flows = t.by_symmetry ? flows_of(a, like) : flows_read(like.nranks, build);
    return t;
}

}  // namespace ef::planning
