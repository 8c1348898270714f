#include "affinity/fabric/json.hpp"

#include "affinity/fabric/file_draft.hpp"
#include "affinity/fabric/json_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace ef::fabric {
namespace {

using keys = std::span<const std::string_view>;
constexpr auto none_value = json_tree::none;
constexpr double most_gbps = 1e9;

constexpr std::array<std::string_view, 9> file_keys = {
    "eflops-fabric", "name", "gbps", "generate", "bigraph", "switches", "hosts", "cables", "down"};
constexpr std::array<std::string_view, 4> switch_keys = {"name", "tier", "side", "id"};
constexpr std::array<std::string_view, 8> host_keys = {"name",   "server", "rail", "address",
                                                       "switch", "gbps",   "up",   "id"};
constexpr std::array<std::string_view, 7> cable_keys = {"a",  "b",         "gbps",     "lanes",
                                                        "up", "a_address", "b_address"};
constexpr std::array<std::string_view, 4> bigraph_keys = {"S", "H", "L", "rails"};
constexpr std::array<std::string_view, 2> generated_host_keys = {"name", "address"};

std::string listed(keys known) {
    std::string out;
    for (std::string_view k : known) out += fmt::format("{}{}", out.empty() ? "" : ", ", k);
    return out;
}

// Reads values and keeps the first thing that does not fit; after that every value is a default and
// nothing is read any more.
class reader {
public:
    explicit reader(const json_tree& t) : tree_(t) {}

    bool ok() const noexcept { return why.ok(); }
    void fail(json_index v, std::string_view reason) { fail_at(tree_.at(v).at, reason); }
    void fail_at(size_t at, std::string_view reason) {
        if (why.ok()) why = tree_.complain(at, reason);
    }
    void take(status s) {
        if (why.ok() && !s.ok()) why = std::move(s);
    }
    size_t at(json_index v) const noexcept { return tree_.at(v).at; }

    bool is(json_index v, json_kind k) {
        if (ok() && tree_.at(v).kind != k)
            fail(v, fmt::format("{}, not {}", name_of(tree_.at(v).kind), name_of(k)));
        return ok();
    }

    // An object that has no other keys than these, and each but once.
    bool object(json_index v, keys known) {
        if (!is(v, json_kind::object)) return false;
        uint32_t had = 0;
        for_each(v, [&](json_index m) {
            const json_value& x = tree_.at(m);
            const auto k = std::find(known.begin(), known.end(), x.key);
            if (k == known.end()) {
                fail_at(x.key_at,
                        fmt::format("unknown key {}, known are {}", shown(x.key), listed(known)));
                return;
            }
            const uint32_t bit = 1u << (k - known.begin());
            if (had & bit) fail_at(x.key_at, fmt::format("key {} is there twice", shown(x.key)));
            had |= bit;
        });
        return ok();
    }

    template <class F>
    void for_each(json_index v, F&& f) {
        for (json_index c = tree_.at(v).first; c != none_value && ok(); c = tree_.at(c).next) f(c);
    }

    json_index find(json_index object, std::string_view key) const noexcept {
        json_index c = tree_.at(object).first;
        while (c != none_value && tree_.at(c).key != key) c = tree_.at(c).next;
        return c;
    }
    json_index required(json_index object, std::string_view key) {
        const json_index v = find(object, key);
        if (v == none_value) fail(object, fmt::format("key {} is missing", shown(key)));
        return v;
    }

    std::string_view text(json_index v) {
        return v != none_value && is(v, json_kind::string) ? tree_.at(v).text : std::string_view();
    }
    bool truth(json_index v, bool otherwise) {
        return v != none_value && is(v, json_kind::boolean) ? tree_.at(v).truth : otherwise;
    }
    uint32_t whole(json_index v, uint32_t least, uint32_t most, uint32_t otherwise) {
        if (v == none_value || !is(v, json_kind::number)) return otherwise;
        const double n = tree_.at(v).number;
        if (n >= least && n <= most && n == std::floor(n)) return uint32_t(n);
        fail(v, fmt::format("{} is not a whole number from {} to {}", n, least, most));
        return otherwise;
    }
    double speed(json_index v) {
        if (!is(v, json_kind::number)) return 0;
        const double n = tree_.at(v).number;
        if (n > 0 && n <= most_gbps) return n;
        fail(v,
             fmt::format("a capacity of {} Gb/s, it must be above 0 and at most {}", n, most_gbps));
        return 0;
    }
    const json_value& value(json_index v) const noexcept { return tree_.at(v); }

    status why;

private:
    const json_tree& tree_;
};

class fabric_reader {
public:
    explicit fabric_reader(const json_tree& t)
        : in_(t), draft_([&t](size_t at, std::string_view why) { return t.complain(at, why); }) {}

    result<graph> read() {
        if (!in_.object(json_tree::root, file_keys)) return in_.why;
        const json_index version = in_.required(json_tree::root, "eflops-fabric");
        in_.whole(version, json_version, json_version, 0);
        if (const json_index v = top("gbps"); v != none_value) default_gbps_ = in_.speed(v);
        if (!in_.ok()) return in_.why;
        result<graph> g = top("generate") != none_value ? generated() : listed_graph();
        if (!g.ok()) return g;
        if (const json_index v = top("name"); v != none_value) g->name = in_.text(v);
        if (const json_index v = top("down"); v != none_value) take_down(v, *g);
        if (!in_.ok()) return in_.why;
        return g;
    }

private:
    json_index top(std::string_view key) const noexcept { return in_.find(json_tree::root, key); }

    // ---- "generate"

    result<graph> generated() {
        for (std::string_view k : {"switches", "cables", "bigraph", "gbps"})
            if (const json_index v = top(k); v != none_value) {
                in_.fail_at(in_.value(v).key_at, "does not go together with \"generate\"");
                return in_.why;
            }
        const json_index v = top("generate");
        const std::string text = generator_text(v);
        if (text.size() > 200) in_.fail(v, "too long for a generator");
        if (!in_.ok()) return in_.why;
        result<graph> g = make_from_text(text);
        if (!g.ok()) {
            in_.fail(v, g.why().text());
            return in_.why;
        }
        if (const json_index hosts = top("hosts"); hosts != none_value) name_addresses(hosts, *g);
        if (!in_.ok()) return in_.why;
        return g;
    }

    // "bigraph:S=4,H=2", or {"kind": "bigraph", "S": 4, "H": 2}
    std::string generator_text(json_index v) {
        if (in_.value(v).kind != json_kind::object) return std::string(in_.text(v));
        const json_index kind = in_.required(v, "kind");
        std::string text(in_.text(kind)), values;
        in_.for_each(v, [&](json_index m) {
            if (m == kind || !in_.is(m, json_kind::number)) return;
            values += fmt::format("{}{}={}", values.empty() ? "" : ",", in_.value(m).key,
                                  in_.value(m).number);
        });
        return text + ":" + values;
    }

    void name_addresses(json_index hosts, graph& g) {
        if (!in_.is(hosts, json_kind::array)) return;
        in_.for_each(hosts, [&](json_index h) {
            if (!in_.object(h, generated_host_keys)) return;
            const json_index name = in_.required(h, "name"), address = in_.required(h, "address");
            const std::string_view called = in_.text(name), ip = in_.text(address);
            if (!in_.ok()) return;
            const node_id n = g.find(called);
            if (n == none || g.at(n).kind != node_kind::host)
                return in_.fail(name, fmt::format("{} is no host of this fabric", shown(called)));
            g.set_address(n, std::string(ip));
        });
    }

    void take_down(json_index list, graph& g) {
        if (!in_.is(list, json_kind::array)) return;
        in_.for_each(list, [&](json_index v) {
            const std::string_view called = in_.text(v);
            if (!in_.ok()) return;
            if (const node_id n = g.find(called); n != none) return g.set_switch_up(n, false);
            if (const link_id l = g.find_link(called); l != none) return g.set_up(l, false);
            in_.fail(v,
                     fmt::format("{} is no switch, host or cable of this fabric", shown(called)));
        });
    }

    // ---- "switches", "hosts", "cables"

    result<graph> listed_graph() {
        for (std::string_view k : {"switches", "hosts"})
            if (const json_index v = in_.required(json_tree::root, k); in_.ok())
                in_.is(v, json_kind::array);
        if (!in_.ok()) return in_.why;
        in_.for_each(top("switches"), [&](json_index v) { add_switch(v); });
        in_.for_each(top("hosts"), [&](json_index v) { add_host(v); });
        if (in_.ok()) check_ids();
        // Only now are all names known.
        in_.for_each(top("hosts"), [&](json_index v) { cable_host(v); });
        if (const json_index cables = top("cables"); cables != none_value)
            if (in_.is(cables, json_kind::array))
                in_.for_each(cables, [&](json_index v) { add_cable(v); });
        if (const json_index v = top("bigraph"); v != none_value) claim_bigraph(v);
        if (!in_.ok()) return in_.why;
        return std::move(draft_).build();
    }

    // The name, and that all of a file's nodes have an id, or none.
    draft_node named(json_index v, node_kind kind) {
        draft_node n;
        n.kind = kind;
        const json_index name = in_.required(v, "name");
        n.name = in_.text(name);
        if (in_.ok()) n.at = in_.at(name);
        const json_index id = in_.find(v, "id");
        n.id = in_.whole(id, 0, uint32_t(max_nodes) - 1, none);
        if (nodes_++ == 0) with_ids_ = id != none_value;
        if ((id != none_value) != with_ids_)
            in_.fail(v, "all switches and hosts have an \"id\", or none of them has");
        return n;
    }

    void add(draft_node n) {
        if (!in_.ok()) return;
        if (n.id != none) ids_.push_back({n.id, n.at});
        const result<uint32_t> r = draft_.add_node(std::move(n));
        if (!r.ok()) in_.take(r.why());
    }

    void add_switch(json_index v) {
        if (!in_.object(v, switch_keys)) return;
        draft_node n = named(v, node_kind::network_switch);
        if (const json_index t = in_.find(v, "tier"); t != none_value)
            n.tier = uint8_t(in_.whole(t, 1, 255, 1));
        if (const json_index s = in_.find(v, "side"); s != none_value) {
            const std::string_view side = in_.text(s);
            if (in_.ok() && side != "U" && side != "L")
                in_.fail(s, fmt::format("{} is not \"U\" or \"L\"", shown(side)));
            n.side = side == "L";
        }
        add(std::move(n));
    }

    void add_host(json_index v) {
        if (!in_.object(v, host_keys)) return;
        draft_node n = named(v, node_kind::host);
        n.server = in_.text(in_.find(v, "server"));
        if (n.server.empty()) n.server = n.name;
        n.address = in_.text(in_.find(v, "address"));
        n.rail = in_.whole(in_.find(v, "rail"), 0, 65535, 0);
        add(std::move(n));
    }

    void check_ids() {
        std::sort(ids_.begin(), ids_.end());
        for (size_t i = 0; i < ids_.size() && in_.ok(); ++i)
            if (ids_[i].first != i)
                in_.fail_at(ids_[i].second,
                            i > 0 && ids_[i].first == ids_[i - 1].first
                                ? fmt::format("id {} is there twice", ids_[i].first)
                                : fmt::format("id {}, but there is no id {}", ids_[i].first, i));
    }

    // "gbps": 100, or [there, back]; else the file's.
    void read_speed(json_index object, draft_cable& c) {
        const json_index v = in_.find(object, "gbps");
        c.there = c.back = default_gbps_;
        if (v == none_value) {
            if (!(default_gbps_ > 0))
                in_.fail(object, "key \"gbps\" is missing, here and at the top of the file");
        } else if (in_.value(v).kind != json_kind::array) {
            c.there = c.back = in_.speed(v);
        } else {
            const json_index there = in_.value(v).first;
            const json_index back = there == none_value ? there : in_.value(there).next;
            if (back == none_value || in_.value(back).next != none_value)
                return in_.fail(v, "not two numbers: Gb/s there and back");
            c.there = in_.speed(there);
            c.back = in_.speed(back);
        }
        c.at = in_.at(v == none_value ? object : v);
    }

    uint32_t end(json_index v, std::string_view what) {
        const std::string_view called = in_.text(v);
        if (!in_.ok()) return none;
        const uint32_t n = draft_.find(called);
        if (n == none) in_.fail(v, fmt::format("there is no {} {}", what, shown(called)));
        return n;
    }

    void cable_host(json_index v) {
        const json_index sw = in_.find(v, "switch");
        if (sw == none_value) {
            for (std::string_view k : {"gbps", "up"})
                if (const json_index x = in_.find(v, k); x != none_value)
                    in_.fail(x, "is of the cable to \"switch\", which is not given");
            return;
        }
        draft_cable c;
        c.a = draft_.find(in_.text(in_.find(v, "name")));
        c.b = end(sw, "switch");
        if (in_.ok() && draft_.at(c.b).kind == node_kind::host)
            in_.fail(sw, fmt::format("{} is a host, not a switch", shown(in_.text(sw))));
        c.a_at = c.b_at = in_.at(sw);
        c.up = in_.truth(in_.find(v, "up"), true);
        read_speed(v, c);
        if (in_.ok()) in_.take(draft_.add_cable(std::move(c)));
    }

    void add_cable(json_index v) {
        if (!in_.object(v, cable_keys)) return;
        const json_index a = in_.required(v, "a"), b = in_.required(v, "b");
        if (!in_.ok()) return;
        draft_cable c;
        c.a = end(a, "switch or host");
        c.b = end(b, "switch or host");
        c.a_at = in_.at(a);
        c.b_at = in_.at(b);
        c.lanes = in_.whole(in_.find(v, "lanes"), 1, 65536, 1);
        c.up = in_.truth(in_.find(v, "up"), true);
        c.a_address = in_.text(in_.find(v, "a_address"));
        c.b_address = in_.text(in_.find(v, "b_address"));
        read_speed(v, c);
        if (in_.ok() && c.lanes > 1 && !(c.a_address.empty() && c.b_address.empty()))
            in_.fail(v, "lanes have addresses of their own: list each as a cable");
        if (in_.ok()) in_.take(draft_.add_cable(std::move(c)));
    }

    void claim_bigraph(json_index v) {
        if (!in_.object(v, bigraph_keys)) return;
        const json_index s = in_.required(v, "S"), h = in_.required(v, "H");
        if (!in_.ok()) return;
        bigraph_shape shape;
        shape.switches = in_.whole(s, 1, 65536, 1);
        shape.hosts = in_.whole(h, 1, 65536, 1);
        shape.lanes = in_.whole(in_.find(v, "L"), 1, 65536, 1);
        shape.rails = in_.whole(in_.find(v, "rails"), 1, 256, 1);
        draft_.bigraph = shape;
        draft_.bigraph_at = in_.at(v);
    }

    reader in_;
    draft draft_;
    double default_gbps_ = 0;
    size_t nodes_ = 0;
    bool with_ids_ = false;
    std::vector<std::pair<uint32_t, size_t>> ids_;  // and where each node's name stands
};

}  // namespace

result<graph> read_json(const source& s) {
    const result<json_tree> t = json_tree::parse(s);
    if (!t.ok()) return t.why();
    return fabric_reader(*t).read();
}

}  // namespace ef::fabric
