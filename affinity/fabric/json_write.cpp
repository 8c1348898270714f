// A graph as the JSON file of eflops-fabric(5), one node or cable a line, so that people can edit
// it and tools can compare it.
#include "affinity/fabric/json.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace ef::fabric {
namespace {

std::string as_json(std::string_view s) {
    // Bytes that are no UTF-8 cannot stand in JSON; they become U+FFFD.
    return nlohmann::json(std::string(s))
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class writer {
public:
    explicit writer(const graph& g) : g_(g) {
        switches_first_ = true;
        for (size_t i = 0; i < g.switches().size(); ++i)
            switches_first_ = switches_first_ && g.switches()[i] == i;
        // "switch" in a host's line also says where its cable stands among all: before those of
        // "cables", in the order of the hosts.
        const auto hosts = g.hosts();
        hosts_first_ = true;
        for (size_t i = 0; i < hosts.size() && hosts_first_; ++i) {
            const link_id up = g.uplink(hosts[i]);
            hosts_first_ = up == 2 * i && g.edge(up).to_address.empty() &&
                           g.edge(g.edge(up).reverse).to_address.empty();
        }
    }

    std::string write() {
        out_ = fmt::format("{{\n\"eflops-fabric\": {},\n\"name\": {},\n", json_version,
                           as_json(g_.name));
        if (g_.bigraph)
            say("\"bigraph\": {{\"S\": {}, \"H\": {}, \"L\": {}, \"rails\": {}}},\n",
                g_.bigraph->switches, g_.bigraph->hosts, g_.bigraph->lanes, g_.bigraph->rails);
        out_ += "\"switches\": [";
        for (node_id n : g_.switches()) write_switch(n);
        out_ += "\n],\n\"hosts\": [";
        first_ = true;
        for (node_id n : g_.hosts()) write_host(n);
        out_ += "\n],\n\"cables\": [";
        first_ = true;
        write_cables();
        out_ += "\n]\n}\n";
        return std::move(out_);
    }

private:
    template <class... A>
    void say(fmt::format_string<A...> f, A&&... args) {
        fmt::format_to(std::back_inserter(out_), f, std::forward<A>(args)...);
    }
    void next_line() {
        out_ += first_ ? "\n  " : ",\n  ";
        first_ = false;
    }
    void write_id(node_id n) {
        if (!switches_first_) say(", \"id\": {}", n);
    }

    void write_switch(node_id n) {
        const node& v = g_.at(n);
        next_line();
        say("{{\"name\": {}, \"tier\": {}", as_json(v.name), v.tier);
        if (g_.bigraph || v.side != 0) say(", \"side\": \"{}\"", "UL"[v.side & 1]);
        write_id(n);
        out_ += '}';
    }

    void write_host(node_id n) {
        const node& v = g_.at(n);
        next_line();
        say("{{\"name\": {}", as_json(v.name));
        if (v.server != v.name) say(", \"server\": {}", as_json(v.server));
        if (v.rail != 0) say(", \"rail\": {}", v.rail);
        if (!v.address.empty()) say(", \"address\": {}", as_json(v.address));
        if (hosts_first_) {
            const link& up = g_.edge(g_.uplink(n));
            say(", \"switch\": {}", as_json(g_.at(up.to).name));
            write_speed(up);
        }
        write_id(n);
        out_ += '}';
    }

    void write_speed(const link& l) {
        const double back = g_.edge(l.reverse).gbps;
        if (back == l.gbps) {
            say(", \"gbps\": {}", l.gbps);
        } else {
            say(", \"gbps\": [{}, {}]", l.gbps, back);
        }
        if (!l.up) out_ += ", \"up\": false";
    }

    // Cables of two nodes that follow each other and are alike are the lanes of one line.
    bool alike(const link& x, const link& y) const {
        const link &p = g_.edge(x.reverse), &q = g_.edge(y.reverse);
        return x.from == y.from && x.to == y.to && x.gbps == y.gbps && p.gbps == q.gbps &&
               x.up == y.up && x.to_address.empty() && y.to_address.empty() &&
               p.to_address.empty() && q.to_address.empty();
    }

    void write_cables() {
        constexpr size_t most_lanes = 65536;
        const auto links = g_.links();
        for (size_t i = hosts_first_ ? 2 * g_.hosts().size() : 0; i < links.size();) {
            const link& l = links[i];
            size_t lanes = 1;
            while (lanes < most_lanes && i + 2 * lanes < links.size() &&
                   alike(l, links[i + 2 * lanes]))
                ++lanes;
            next_line();
            say("{{\"a\": {}, \"b\": {}", as_json(g_.at(l.from).name), as_json(g_.at(l.to).name));
            write_speed(l);
            if (lanes > 1) say(", \"lanes\": {}", lanes);
            if (const std::string& ip = g_.edge(l.reverse).to_address; !ip.empty())
                say(", \"a_address\": {}", as_json(ip));
            if (!l.to_address.empty()) say(", \"b_address\": {}", as_json(l.to_address));
            out_ += '}';
            i += 2 * lanes;
        }
    }

    const graph& g_;
    std::string out_;
    bool switches_first_ = true, hosts_first_ = true, first_ = true;
};

}  // namespace

std::string write_json(const graph& g) { return writer(g).write(); }

}  // namespace ef::fabric
