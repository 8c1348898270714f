#include "affinity/fabric/svg_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ef::fabric {
namespace {

constexpr double margin = 24, gap_x = 22, gap_host = 6, gap_host_y = 44, panel_gap = 48;
constexpr double switch_height = 28, line_height = 13, least_width = 640;
constexpr size_t most_hosts = 160, most_hosts_of_a_switch = 20;  // more are drawn as one box
constexpr size_t most_columns = 24;  // of a label; more are cut out of it

// A place in a row: a switch with its hosts above or below it, or hosts alone.
struct column {
    node_id network_switch = none;
    std::vector<node_id> hosts;
    double width = 0;
};

// Rows of one connected part, from the top; hosts of the first row may stand above it, those of the
// last below it.
struct panel {
    std::vector<std::vector<column>> rows;
    bool above = false, below = false;
    double width = 0;
};

size_t next_code_point(std::string_view t, size_t at, uint32_t& code) noexcept {
    const auto byte = [&](size_t i) { return i < t.size() ? uint8_t(t[i]) : 0u; };
    const uint32_t first = byte(at);
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    code = more == 0 ? first : first & (0x3fu >> more);
    if (first >= 0x80 && (more == 0 || first > 0xf4)) return code = '?', at + 1;
    for (size_t i = 1; i <= more; ++i) {
        if ((byte(at + i) & 0xc0) != 0x80) return code = '?', at + 1;
        code = code << 6 | (byte(at + i) & 0x3f);
    }
    return at + more + 1;
}

bool is_wide(uint32_t c) noexcept {
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
           (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
           (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
}

/// At most `most_columns`: of a longer name both ends, since names of a fabric differ there.
std::string shortened(std::string_view text) {
    if (text_columns(text) <= most_columns) return std::string(text);
    std::vector<std::pair<size_t, size_t>> starts;  // of each code point, with its columns
    for (size_t at = 0; at < text.size();) {
        uint32_t code = 0;
        const size_t next = next_code_point(text, at, code);
        starts.push_back({at, is_wide(code) ? 2 : 1});
        at = next;
    }
    size_t head = 0, columns = 1, tail = starts.size();
    while (columns + starts[head].second <= most_columns / 2) columns += starts[head++].second;
    while (columns + starts[tail - 1].second <= most_columns) columns += starts[--tail].second;
    return fmt::format("{}\u2026{}", text.substr(0, starts[head].first),
                       text.substr(starts[tail].first));
}

double text_width(std::string_view text, double font) {
    return double(text_columns(text)) * svg_advance * font;
}

class drafter {
public:
    drafter(const graph& g, std::span<const std::string> notes) : g_(g), notes_(notes) {}

    svg_layout run(double top) {
        measure_hosts();
        node_at_.assign(g_.nodes().size(), none);
        std::vector<panel> panels;
        for (const auto& part : parts()) panels.push_back(arrange(part));
        double x = margin, total = 0, between_rows = 0;
        for (const panel& p : panels) total += p.width + (total > 0 ? panel_gap : 0);
        x += std::max(0.0, (least_width - 2 * margin - total) / 2);
        for (const panel& p : panels) {
            size_t most = 0;
            for (const auto& row : p.rows) most = std::max(most, row.size());
            between_rows = std::max(between_rows, most < 2 ? 90 : 0.26 * p.width);
        }
        between_rows = std::clamp(between_rows, 90.0, 420.0);
        double bottom = top;
        for (const panel& p : panels) {
            bottom = std::max(bottom, place(p, x, top, between_rows));
            x += p.width + panel_gap;
        }
        out_.width = std::max(least_width, x - panel_gap + margin);
        out_.height = bottom;
        connect();
        return std::move(out_);
    }

private:
    // ---- measure
    std::vector<std::string> lines_of(node_id n) const {
        std::vector<std::string> lines{shortened(g_.at(n).name)};
        if (n < notes_.size() && !notes_[n].empty()) lines.push_back(shortened(notes_[n]));
        return lines;
    }

    void measure_hosts() {
        std::map<node_id, size_t> per_switch;
        size_t most = 0;
        double wide = 0;
        size_t lines = 1;
        for (const node_id h : g_.hosts()) {
            most = std::max(most, ++per_switch[g_.switch_of(h)]);
            const auto text = lines_of(h);
            lines = std::max(lines, text.size());
            for (const std::string& l : text) wide = std::max(wide, text_width(l, svg_host_font));
        }
        out_.condensed = g_.hosts().size() > most_hosts || most > most_hosts_of_a_switch;
        if (out_.condensed) {
            host_w_ = text_width("99999 hosts", svg_host_font) + 10;
            host_h_ = line_height + 7;
            return;
        }
        turned_ = wide > 80 || (most > 4 && wide > 20);
        host_w_ = wide + 10, host_h_ = double(lines) * line_height + 7;
        if (turned_) std::swap(host_w_, host_h_);
    }

    double switch_width(node_id n) const {
        double w = 40;
        for (const std::string& l : lines_of(n))
            w = std::max(w, text_width(l, svg_switch_font) + 14);
        return w;
    }

    // ---- arrange
    std::vector<std::vector<node_id>> parts() const {
        std::vector<std::vector<node_id>> all;
        std::vector<bool> seen(g_.nodes().size());
        for (node_id start = 0; start < g_.nodes().size(); ++start) {
            if (seen[start]) continue;
            std::vector<node_id> part{start};
            seen[start] = true;
            for (size_t i = 0; i < part.size(); ++i)
                for (const link_id l : g_.out(part[i]))
                    if (const node_id to = g_.edge(l).to; !seen[to]) {
                        seen[to] = true;
                        part.push_back(to);
                    }
            std::sort(part.begin(), part.end());
            all.push_back(std::move(part));
        }
        return all;
    }

    /// Row of each switch: the side of a BiGraph, or the tier from the top.
    panel arrange(const std::vector<node_id>& part) const {
        std::map<int, std::vector<column>> rows;
        bool sides = false, tiers = false;
        for (const node_id n : part)
            if (g_.at(n).kind == node_kind::network_switch) {
                sides |= g_.at(n).side != 0;
                tiers |= g_.at(n).tier > 1;
            }
        std::map<node_id, std::vector<node_id>> hosts;
        for (const node_id n : part) {
            const node& v = g_.at(n);
            if (v.kind == node_kind::host) hosts[g_.switch_of(n)].push_back(n);
            else rows[sides && !tiers ? int(v.side) : -int(v.tier)].push_back({n, {}, 0});
        }
        panel p;
        for (auto& [key, row] : rows) p.rows.push_back(std::move(row));
        if (p.rows.empty()) p.rows.emplace_back();  // a host without a switch: no checked graph
        give_hosts(p, hosts);
        for (auto& row : p.rows) {
            double width = -gap_x;
            for (column& c : row) width += (c.width = width_of(c)) + gap_x;
            p.width = std::max(p.width, width);
        }
        return p;
    }

    void give_hosts(panel& p, std::map<node_id, std::vector<node_id>>& hosts) const {
        for (size_t r = 0; r < p.rows.size(); ++r) {
            const bool first = r == 0 && p.rows.size() > 1, last = r + 1 == p.rows.size();
            for (size_t i = 0; i < p.rows[r].size(); ++i) {
                auto& mine = hosts[p.rows[r][i].network_switch];
                if (mine.empty()) continue;
                p.above |= first;
                p.below |= !first;
                if (first || last) p.rows[r][i].hosts = mine;
                else p.rows.back().push_back({none, mine, 0});  // of a row between: at the end
            }
        }
    }

    double hosts_width(const column& c) const {
        if (c.hosts.empty()) return 0;
        if (out_.condensed) return host_w_;
        return double(c.hosts.size()) * (host_w_ + gap_host) - gap_host;
    }

    double width_of(const column& c) const {
        return std::max(c.network_switch == none ? 0 : switch_width(c.network_switch),
                        hosts_width(c));
    }

    // ---- place; returns the bottom
    double place(const panel& p, double left, double top, double between_rows) {
        double y = top;
        if (p.above) {
            place_hosts(p, p.rows.front(), left, y);
            y += host_h_ + gap_host_y;
        }
        for (size_t r = 0; r < p.rows.size(); ++r) {
            if (r > 0) y += switch_height + between_rows;
            place_switches(p, p.rows[r], left, y, int(r));
        }
        y += switch_height;
        if (p.below) {
            place_hosts(p, p.rows.back(), left, y + gap_host_y);
            y += gap_host_y + host_h_;
        }
        return y;
    }

    /// Middle of each column when the row is spread over the panel.
    std::vector<double> middles(const panel& p, const std::vector<column>& row, double left) const {
        double used = 0;
        for (const column& c : row) used += c.width;
        const double space = (p.width - used) / double(std::max<size_t>(row.size(), 1));
        std::vector<double> at;
        double x = left + space / 2;
        for (const column& c : row) {
            at.push_back(x + c.width / 2);
            x += c.width + space;
        }
        return at;
    }

    void place_switches(const panel& p, const std::vector<column>& row, double left, double y,
                        int r) {
        const auto at = middles(p, row, left);
        for (size_t i = 0; i < row.size(); ++i) {
            const node_id n = row[i].network_switch;
            if (n == none) continue;
            double w = switch_width(n);
            // Room for the ends of many cables, as far as the column has it.
            w = std::clamp(4.0 * double(g_.out(n).size()), w, std::max(w, row[i].width));
            add({{n}, true, false, {at[i] - w / 2, y, w, switch_height}, lines_of(n)}, r);
        }
    }

    void place_hosts(const panel& p, const std::vector<column>& row, double left, double y) {
        const auto at = middles(p, row, left);
        for (size_t i = 0; i < row.size(); ++i) {
            if (row[i].hosts.empty()) continue;
            double x = at[i] - hosts_width(row[i]) / 2;
            if (out_.condensed) {
                const size_t n = row[i].hosts.size();
                add({row[i].hosts,
                     false,
                     false,
                     {x, y, host_w_, host_h_},
                     {fmt::format("{} host{}", n, n == 1 ? "" : "s")}},
                    -1);
                continue;
            }
            for (const node_id h : row[i].hosts) {
                add({{h}, false, turned_, {x, y, host_w_, host_h_}, lines_of(h)}, -1);
                x += host_w_ + gap_host;
            }
        }
    }

    void add(svg_node n, int row) {
        for (const node_id id : n.nodes) node_at_[id] = uint32_t(out_.nodes.size());
        row_.push_back(row);
        out_.nodes.push_back(std::move(n));
    }

    // ---- connect: cables end at the edge that faces the other end, in the order of the other ends
    struct end {
        size_t cable = 0;
        bool first = true;
        bool bottom = false;
        double other_x = 0;
    };

    void connect() {
        std::vector<std::vector<end>> ends(out_.nodes.size());
        std::map<std::pair<uint32_t, uint32_t>, size_t> joined;  // condensed: switch, box -> cable
        for (link_id l = 0; l < g_.links().size(); ++l) {
            const link& e = g_.edge(l);
            if (e.reverse < l || node_at_[e.from] == none || node_at_[e.to] == none) continue;
            const uint32_t a = node_at_[e.from], b = node_at_[e.to];
            const bool to_hosts = out_.nodes[a].is_switch != out_.nodes[b].is_switch;
            if (out_.condensed && to_hosts) {
                const auto [it, is_new] = joined.try_emplace({a, b}, out_.cables.size());
                if (!is_new) {
                    out_.cables[it->second].links.push_back(l);
                    continue;
                }
            }
            add_cable(l, a, b, ends);
        }
        for (size_t i = 0; i < ends.size(); ++i) spread(out_.nodes[i], ends[i]);
        for (size_t c = 0; c < out_.cables.size(); ++c) bend(out_.cables[c], same_row_[c]);
    }

    void add_cable(link_id l, uint32_t a, uint32_t b, std::vector<std::vector<end>>& ends) {
        const svg_box &x = out_.nodes[a].at, &y = out_.nodes[b].at;
        const bool level = row_[a] == row_[b] && row_[a] >= 0;
        // Between switches of one row the cable leaves towards the middle of the picture.
        const bool level_bottom = row_[a] == 0 && row_[a] != last_row();
        const size_t c = out_.cables.size();
        out_.cables.push_back({{l}, {}, {}, {}});
        same_row_.push_back(level ? (level_bottom ? 1 : -1) : 0);
        ends[a].push_back({c, true, level ? level_bottom : y.y > x.y, y.middle_x()});
        ends[b].push_back({c, false, level ? level_bottom : x.y > y.y, x.middle_x()});
    }

    int last_row() const { return *std::max_element(row_.begin(), row_.end()); }

    void spread(const svg_node& n, std::vector<end>& ends) {
        for (const bool bottom : {false, true}) {
            std::vector<end> here;
            for (const end& e : ends)
                if (e.bottom == bottom) here.push_back(e);
            std::stable_sort(here.begin(), here.end(),
                             [](const end& a, const end& b) { return a.other_x < b.other_x; });
            const double pitch = n.at.w / double(here.size() + (n.is_switch ? 0 : 1));
            if (here.size() > 1 && (out_.cable_pitch == 0 || pitch < out_.cable_pitch))
                out_.cable_pitch = pitch;
            for (size_t i = 0; i < here.size(); ++i) {
                svg_cable& c = out_.cables[here[i].cable];
                const double x = n.is_switch ? n.at.x + (double(i) + 0.5) * pitch
                                             : n.at.x + double(i + 1) * pitch;
                (here[i].first ? c.a : c.b) = {x, bottom ? n.at.bottom() : n.at.y};
            }
        }
    }

    static void bend(svg_cable& c, int side) {
        c.bend = {(c.a.x + c.b.x) / 2, (c.a.y + c.b.y) / 2};
        if (side != 0) c.bend.y += side * std::min(30 + 0.2 * std::abs(c.a.x - c.b.x), 130.0);
    }

    const graph& g_;
    std::span<const std::string> notes_;
    svg_layout out_;
    double host_w_ = 0, host_h_ = 0;
    bool turned_ = false;
    std::vector<uint32_t> node_at_;  // by node id: index of its box
    std::vector<int> row_;           // by box; -1: hosts
    std::vector<int> same_row_;      // by cable: 1 bends down, -1 bends up, 0 straight
};

}  // namespace

size_t text_columns(std::string_view text) noexcept {
    size_t columns = 0;
    for (size_t at = 0; at < text.size();) {
        uint32_t code = 0;
        at = next_code_point(text, at, code);
        columns += is_wide(code) ? 2 : 1;
    }
    return columns;
}

result<svg_layout> lay_out(const graph& g, std::span<const std::string> notes, double top) {
    if (g.switches().size() > svg_most_switches)
        return status(EF_UNSUPPORTED,
                      fmt::format("{}: a picture of {} switches cannot be read; the most is {}",
                                  g.name, g.switches().size(), svg_most_switches));
    return drafter(g, notes).run(top);
}

}  // namespace ef::fabric
