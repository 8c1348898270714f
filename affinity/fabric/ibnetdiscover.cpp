#include "affinity/fabric/ibnetdiscover.hpp"

#include "affinity/fabric/file_draft.hpp"
#include "affinity/fabric/ibnetdiscover_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace ef::fabric {
namespace {

class subnet {
public:
    subnet(const source& s, const ib_lines& l) : source_(s), lines_(l) {}

    result<graph> read() {
        if (lines_.devices.empty()) return refuse(0, "no Switch and no Ca");
        for (status (subnet::*step)() : {&subnet::index, &subnet::match})
            if (status s = (this->*step)(); !s.ok()) return s;
        name_devices();
        draft d([this](size_t at, std::string_view why) { return refuse(at, why); });
        d.name = "ibnetdiscover";
        if (status s = add_switches(d); !s.ok()) return s;
        if (status s = add_hosts(d); !s.ok()) return s;
        if (status s = add_cables(d); !s.ok()) return s;
        return std::move(d).build();
    }

private:
    status refuse(size_t at, std::string_view why) const { return line_error(source_, at, why); }

    static uint64_t key(uint32_t device, uint32_t port) { return uint64_t(device) << 32 | port; }
    const ib_device& device(uint32_t d) const { return lines_.devices[d]; }
    std::string end(uint32_t d, uint32_t port) const {
        return fmt::format("port {} of {}", port, shown(device(d).id));
    }

    status index() {
        for (uint32_t d = 0; d < lines_.devices.size(); ++d)
            if (!by_id_.emplace(device(d).id, d).second)
                return refuse(device(d).at,
                              fmt::format("a second section for {}", shown(device(d).id)));
        for (uint32_t w = 0; w < lines_.wires.size(); ++w) {
            const ib_wire& x = lines_.wires[w];
            if (!at_port_.emplace(key(x.device, x.port), w).second)
                return refuse(x.at, fmt::format("a second line for {}", end(x.device, x.port)));
        }
        return {};
    }

    // Each cable from both of its ends.
    status match() {
        other_.resize(lines_.wires.size());
        for (uint32_t w = 0; w < lines_.wires.size(); ++w) {
            const ib_wire& x = lines_.wires[w];
            const auto peer = by_id_.find(x.peer);
            if (peer == by_id_.end())
                return refuse(x.at, fmt::format("{} leads to {}, which has no section: the output "
                                                "is cut",
                                                end(x.device, x.port), shown(x.peer)));
            const auto back = at_port_.find(key(peer->second, x.peer_port));
            if (back == at_port_.end())
                return refuse(x.at,
                              fmt::format("{} leads to {}, which has no line of its own: the "
                                          "output is cut",
                                          end(x.device, x.port), end(peer->second, x.peer_port)));
            const ib_wire& y = lines_.wires[back->second];
            if (y.peer != device(x.device).id || y.peer_port != x.port)
                return refuse(x.at, fmt::format("{} leads to {}, but that leads to port {} of {}",
                                                end(x.device, x.port), end(y.device, y.port),
                                                y.peer_port, shown(y.peer)));
            other_[w] = back->second;
        }
        return {};
    }

    // ---- names

    // Routers lead out of the subnet; switches reduce in aggregation nodes, where nobody computes.
    bool left_out(uint32_t d) const {
        return device(d).kind == 'R' ||
               (device(d).kind == 'H' &&
                device(d).description.find("Aggregation Node") != std::string_view::npos);
    }

    struct label {
        std::string server, adapter;  // switches: the name is in `server`
    };

    // "node1 mlx5_0": server and adapter; "'node1' HCA-1" likewise.
    static label split(std::string_view words) {
        const auto trim = [](std::string_view s) {
            while (!s.empty() && (s.front() == ' ' || s.front() == '\'')) s.remove_prefix(1);
            while (!s.empty() && (s.back() == ' ' || s.back() == '\'')) s.remove_suffix(1);
            return std::string(s);
        };
        const size_t blank = words.find(' ', std::min(words.find_first_not_of(' '), words.size()));
        if (blank == std::string_view::npos) return {trim(words), {}};
        return {trim(words.substr(0, blank)), trim(words.substr(blank + 1))};
    }

    // A description that several devices have says nothing about either: "Quantum Mellanox
    // Technologies", "localhost mlx5_0". Those go by their id, and each is a server of its own.
    void name_devices() {
        std::vector<std::string> words;
        std::unordered_map<std::string_view, uint32_t> times;
        words.reserve(lines_.devices.size());
        for (const ib_device& d : lines_.devices)
            words.push_back(printable(d.description.substr(0, 256)));
        for (const std::string& w : words) ++times[w];
        for (uint32_t i = 0; i < words.size(); ++i) {
            label l = device(i).kind == 'S' ? label{words[i], {}} : split(words[i]);
            if (l.server.empty() || times[words[i]] > 1) l = {std::string(device(i).id), {}};
            labels_.push_back(std::move(l));
        }
    }

    // ---- the fabric

    status add_switches(draft& d) {
        std::vector<uint32_t> order;
        for (uint32_t i = 0; i < lines_.devices.size(); ++i)
            if (device(i).kind == 'S') order.push_back(i);
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            return natural_less(labels_[a].server, labels_[b].server);
        });
        switch_.assign(lines_.devices.size(), none);
        for (uint32_t i : order) {
            draft_node n;
            n.name = labels_[i].server;
            n.at = device(i).at;
            const result<uint32_t> r = d.add_node(std::move(n));
            if (!r.ok()) return r.why();
            switch_[i] = *r;
        }
        return {};
    }

    status add_hosts(draft& d) {
        std::vector<uint32_t> ends, cabled(lines_.devices.size(), 0);
        for (uint32_t w = 0; w < lines_.wires.size(); ++w) {
            const uint32_t i = lines_.wires[w].device;
            if (device(i).kind != 'H' || left_out(i)) continue;
            ends.push_back(w);
            ++cabled[i];
        }
        std::stable_sort(ends.begin(), ends.end(), [&](uint32_t v, uint32_t w) {
            const ib_wire &x = lines_.wires[v], &y = lines_.wires[w];
            const label &p = labels_[x.device], &q = labels_[y.device];
            if (p.server != q.server) return natural_less(p.server, q.server);
            if (p.adapter != q.adapter) return natural_less(p.adapter, q.adapter);
            return std::tie(x.device, x.port) < std::tie(y.device, y.port);
        });
        host_.assign(lines_.wires.size(), none);
        std::string server;
        uint32_t rail = 0;
        for (uint32_t w : ends) {
            const ib_wire& x = lines_.wires[w];
            const label& l = labels_[x.device];
            rail = l.server == server ? rail + 1 : 0;
            server = l.server;
            draft_node n;
            n.kind = node_kind::host;
            n.server = l.server;
            n.name = l.adapter.empty() ? l.server : l.server + "/" + l.adapter;
            if (cabled[x.device] > 1) n.name += fmt::format("/{}", x.port);
            n.rail = rail;
            n.at = x.at;
            const result<uint32_t> r = d.add_node(std::move(n));
            if (!r.ok()) return r.why();
            host_[w] = *r;
        }
        // In the order of the hosts, so that the ports of a switch are numbered by it.
        for (uint32_t w : ends)
            if (status s = add_cable(d, w); !s.ok()) return s;
        return {};
    }

    uint32_t node_of(uint32_t w) const {
        const uint32_t i = lines_.wires[w].device;
        return device(i).kind == 'S' ? switch_[i] : host_[w];
    }

    status add_cable(draft& d, uint32_t w) {
        const uint32_t o = other_[w];
        if (left_out(lines_.wires[o].device)) return {};
        draft_cable c;
        c.a = node_of(w);
        c.b = node_of(o);
        c.there = lines_.wires[w].gbps;
        c.back = lines_.wires[o].gbps;
        c.at = c.a_at = c.b_at = lines_.wires[w].at;
        return d.add_cable(std::move(c));
    }

    // Between switches, each once: from the end that comes first.
    status add_cables(draft& d) {
        for (uint32_t w = 0; w < lines_.wires.size(); ++w)
            if (device(lines_.wires[w].device).kind == 'S' && w <= other_[w] &&
                device(lines_.wires[other_[w]].device).kind == 'S')
                if (status s = add_cable(d, w); !s.ok()) return s;
        return {};
    }

    const source& source_;
    const ib_lines& lines_;
    std::unordered_map<std::string_view, uint32_t> by_id_;
    std::unordered_map<uint64_t, uint32_t> at_port_;  // wire
    std::vector<uint32_t> other_;                     // by wire: the same cable from its other end
    std::vector<label> labels_;                       // by device
    std::vector<uint32_t> switch_, host_;             // nodes: by device, by wire
};

}  // namespace

result<graph> read_ibnetdiscover(const source& s) {
    const result<ib_lines> lines = read_ib_lines(s);
    if (!lines.ok()) return lines.why();
    return subnet(s, *lines).read();
}

}  // namespace ef::fabric
