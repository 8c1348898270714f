#include "affinity/fabric/slurm.hpp"

#include "affinity/fabric/file_draft.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ef::fabric {
namespace {

// A line that names a switch or a block.
struct entry {
    std::string name, nodes, switches;
    bool block = false;
    double gbps = 0;  // 0: not given
    size_t at = 0;
};

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

bool same_word(std::string_view a, std::string_view b) noexcept {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

class topology_reader {
public:
    explicit topology_reader(const source& s)
        : source_(s),
          draft_([&s](size_t at, std::string_view why) { return line_error(s, at, why); }) {}

    result<graph> read() {
        if (status s = read_lines(); !s.ok()) return s;
        if (entries_.empty()) return refuse(source_.text.size(), "no SwitchName and no BlockName");
        if (status s = entries_[0].block ? build_blocks() : build_tree(); !s.ok()) return s;
        return std::move(draft_).build();
    }

private:
    status refuse(size_t at, std::string_view why) const { return line_error(source_, at, why); }

    // ---- lines

    status read_lines() {
        const std::string_view text = source_.text;
        std::string line;
        size_t begin = 0;
        for (size_t at = 0; at < text.size();) {
            const size_t end = std::min(text.find('\n', at), text.size());
            if (line.empty()) begin = at;
            std::string_view piece = text.substr(at, end - at);
            if (const size_t hash = piece.find('#'); hash != piece.npos)
                piece = piece.substr(0, hash);
            while (!piece.empty() && is_blank(piece.back())) piece.remove_suffix(1);
            at = end + 1;
            const bool goes_on = piece.ends_with('\\');
            if (goes_on) piece.remove_suffix(1);
            line += piece;
            if (goes_on && at < text.size()) {
                line += ' ';
                continue;
            }
            if (status s = read_line(line, begin); !s.ok()) return s;
            line.clear();
        }
        return {};
    }

    status read_line(std::string_view line, size_t at) {
        entry e;
        e.at = at;
        bool sizes = false, any = false;
        while (true) {
            while (!line.empty() && is_blank(line[0])) line.remove_prefix(1);
            if (line.empty()) break;
            any = true;
            const size_t equals = line.find('=');
            if (equals == line.npos ||
                std::any_of(line.begin(), line.begin() + long(equals), is_blank))
                return refuse(at, fmt::format("{} is not KEY=VALUE", shown(line)));
            const std::string_view key = line.substr(0, equals);
            line.remove_prefix(equals + 1);
            std::string_view value;
            if (!take_value(line, value))
                return refuse(at, fmt::format("{} has no whole value", shown(key)));
            if (status s = set(e, key, value, sizes); !s.ok()) return s;
        }
        if (!any) return {};
        if (e.name.empty()) {
            if (sizes && e.nodes.empty() && e.switches.empty() && e.gbps == 0) return {};
            return refuse(at, "the line does not begin with SwitchName= or BlockName=");
        }
        return keep(std::move(e));
    }

    // A word, or anything in quotes; what was taken is gone from `line`.
    static bool take_value(std::string_view& line, std::string_view& value) {
        size_t end = 0, after = 0;
        if (line.starts_with('"')) {
            line.remove_prefix(1);
            end = line.find('"');
            if (end == line.npos) return false;
            after = end + 1;
        } else {
            while (end < line.size() && !is_blank(line[end])) ++end;
            after = end;
        }
        value = line.substr(0, end);
        line.remove_prefix(after);
        return !value.empty();
    }

    status set(entry& e, std::string_view key, std::string_view value, bool& sizes) const {
        const auto name = [&](bool block) {
            if (!e.name.empty()) return refuse(e.at, "two names on one line");
            if (value.find_first_of("[],\"") != value.npos || value != printable(value))
                return refuse(
                    e.at, fmt::format("{} is not the name of one switch or block", shown(value)));
            e.name = value;
            e.block = block;
            return status();
        };
        const auto list = [&](std::string& to) {
            if (!to.empty()) return refuse(e.at, fmt::format("{} is there twice", shown(key)));
            to = value;
            return status();
        };
        if (same_word(key, "SwitchName")) return name(false);
        if (same_word(key, "BlockName")) return name(true);
        if (same_word(key, "Nodes")) return list(e.nodes);
        if (same_word(key, "Switches")) return list(e.switches);
        double number = 0;
        const auto [end, err] = std::from_chars(value.data(), value.data() + value.size(), number);
        const bool positive = err == std::errc() && number > 0 && std::isfinite(number);
        if (same_word(key, "LinkSpeed")) {
            if (!positive || end != value.data() + value.size())
                return refuse(e.at, fmt::format("LinkSpeed={} is not a number of Gb/s above 0",
                                                shown(value)));
            e.gbps = number;
            return {};
        }
        if (same_word(key, "BlockSizes")) {
            if (!positive || value.find_first_not_of("0123456789,") != value.npos)
                return refuse(e.at, fmt::format("BlockSizes={} is no list of numbers of nodes",
                                                shown(value)));
            sizes = true;
            return {};
        }
        return refuse(e.at, fmt::format("unknown key {}, known are SwitchName, Nodes, Switches, "
                                        "LinkSpeed, BlockName, BlockSizes",
                                        shown(key)));
    }

    status keep(entry e) {
        if (!entries_.empty() && entries_[0].block != e.block)
            return refuse(e.at, "switches and blocks in one file: it is either a tree or blocks");
        if (e.block && !e.switches.empty()) return refuse(e.at, "a block has no switches");
        if (e.block && e.gbps > 0) return refuse(e.at, "a block has no LinkSpeed");
        if (e.nodes.empty() && e.switches.empty())
            return refuse(e.at, fmt::format("{} has no Nodes{}", shown(e.name),
                                            e.block ? "" : " and no Switches"));
        entries_.push_back(std::move(e));
        return {};
    }

    // ---- the fabric

    status add_switches() {
        for (const entry& e : entries_) {
            draft_node n;
            n.name = e.name;
            n.at = e.at;
            if (result<uint32_t> r = draft_.add_node(std::move(n)); !r.ok()) return r.why();
        }
        return {};
    }

    status add_cable(const entry& e, uint32_t below, uint32_t above, uint32_t lanes = 1) {
        if (e.gbps == 0) assumed_ = true;
        draft_cable c;
        c.a = below;
        c.b = above;
        c.there = c.back = e.gbps > 0 ? e.gbps : assumed_gbps;
        c.lanes = lanes;
        c.at = c.a_at = c.b_at = e.at;
        return draft_.add_cable(std::move(c));
    }

    status names_in(const entry& e, std::string_view list, std::vector<std::string>& out) const {
        out.clear();
        const status s = expand_hostlist(list, max_nodes, out);
        return s.ok() ? status() : refuse(e.at, s.text());
    }

    status add_hosts(const entry& e, uint32_t on, size_t& count) {
        std::vector<std::string> names;
        count = 0;
        if (e.nodes.empty()) return {};
        if (status s = names_in(e, e.nodes, names); !s.ok()) return s;
        for (std::string& name : names) {
            uint32_t host = draft_.find(name);
            if (host == none || draft_.at(host).kind != node_kind::host) {
                draft_node n;
                n.kind = node_kind::host;
                n.name = n.server = n.address = std::move(name);
                n.at = e.at;
                result<uint32_t> r = draft_.add_node(std::move(n));
                if (!r.ok()) return r.why();
                host = *r;
            }
            if (status s = add_cable(e, host, on); !s.ok()) return s;
        }
        count = names.size();
        return {};
    }

    status build_tree() {
        if (status s = add_switches(); !s.ok()) return s;
        size_t count = 0;
        for (uint32_t i = 0; i < entries_.size(); ++i)  // the switches are the first nodes
            if (status s = add_hosts(entries_[i], i, count); !s.ok()) return s;
        std::vector<uint32_t> above(entries_.size(), none);
        std::vector<std::string> names;
        for (uint32_t i = 0; i < entries_.size(); ++i) {
            if (entries_[i].switches.empty()) continue;
            if (status s = names_in(entries_[i], entries_[i].switches, names); !s.ok()) return s;
            for (const std::string& name : names)
                if (status s = hang(name, i, above); !s.ok()) return s;
        }
        draft_.name = "slurm tree";
        if (assumed_) draft_.name += fmt::format(", {} Gb/s a cable assumed", assumed_gbps);
        return {};
    }

    // One switch under another: a tree, so that each is under at most one and none under itself.
    status hang(const std::string& name, uint32_t i, std::vector<uint32_t>& above) {
        const entry& e = entries_[i];
        const uint32_t below = draft_.find(name);
        if (below == none || draft_.at(below).kind == node_kind::host)
            return refuse(e.at, fmt::format("there is no switch {}", shown(name)));
        if (above[below] != none)
            return refuse(e.at, fmt::format("switch {} is under {} already: it has to be a tree",
                                            shown(name), shown(entries_[above[below]].name)));
        uint32_t top = i;
        for (uint32_t steps = 0; above[top] != none; top = above[top])
            if (++steps > 255) return refuse(e.at, "more than 255 switches above each other");
        if (top == below)
            return refuse(e.at, fmt::format("switch {} is under itself", shown(name)));
        above[below] = i;
        return add_cable(e, below, i);
    }

    status build_blocks() {
        if (status s = add_switches(); !s.ok()) return s;
        std::vector<size_t> counts(entries_.size());
        for (uint32_t i = 0; i < entries_.size(); ++i)
            if (status s = add_hosts(entries_[i], i, counts[i]); !s.ok()) return s;
        draft_.name = "slurm blocks";
        if (entries_.size() > 1) {
            draft_node core;
            core.name = "core";
            while (draft_.find(core.name) != none) core.name += "_";
            core.at = entries_[0].at;
            draft_.name +=
                fmt::format(" joined by one switch \"{}\" with a cable for each node", core.name);
            result<uint32_t> r = draft_.add_node(std::move(core));
            if (!r.ok()) return r.why();
            for (uint32_t i = 0; i < entries_.size(); ++i)
                if (status s = add_cable(entries_[i], i, *r, uint32_t(counts[i])); !s.ok())
                    return s;
        }
        draft_.name += fmt::format(", {} Gb/s a cable assumed", assumed_gbps);
        return {};
    }

    const source& source_;
    draft draft_;
    std::vector<entry> entries_;
    bool assumed_ = false;
};

}  // namespace

result<graph> read_slurm(const source& s) { return topology_reader(s).read(); }

}  // namespace ef::fabric
