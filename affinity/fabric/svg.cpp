#include "affinity/fabric/svg.hpp"

#include "affinity/fabric/svg_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ef::fabric {
namespace {

constexpr double margin = 24, title_font = 17, words_font = 12, legend_font = 11, line = 17;

struct load_class {
    double most;  // flows, inclusive
    const char* says;
    const char* colour;  // told apart also by who sees no red or green: they darken as they grow
    double width;
};
constexpr std::array<load_class, 6> classes{{{0, "no flow", "#c3cad1", 1.2},
                                             {1, "1 flow", "#2a9d74", 2.2},
                                             {2, "2 flows", "#e8a317", 3.4},
                                             {4, "3 or 4 flows", "#e0632b", 4.6},
                                             {8, "5 to 8 flows", "#b3172d", 5.8},
                                             {1e300, "more than 8 flows", "#5c0a2e", 7}}};
constexpr load_class plain{0, "cable", "#6b7785", 1.6};
constexpr load_class down{0, "down", "#8d99a6", 1.2};

const load_class& class_of(double flows) {
    for (const load_class& c : classes)
        if (flows <= c.most + 1e-9) return c;
    return classes.back();
}

/// XML text: markup escaped; what XML cannot hold (control characters, bytes that are no UTF-8)
/// becomes '?'.
std::string escaped(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        const uint8_t c = uint8_t(text[i]);
        const size_t n = c < 0x80                ? 1
                         : c >= 0xc2 && c < 0xe0 ? 2
                         : c >= 0xe0 && c < 0xf0 ? 3
                         : c >= 0xf0 && c < 0xf5 ? 4
                                                 : 0;
        bool good = n > 0 && i + n <= text.size() && (n > 1 || (c >= 0x20 && c != 0x7f));
        for (size_t k = 1; good && k < n; ++k) good = (uint8_t(text[i + k]) & 0xc0) == 0x80;
        // Surrogates and the two non-characters are no XML either.
        if (good && c == 0xed && uint8_t(text[i + 1]) >= 0xa0) good = false;
        if (good && c == 0xef && uint8_t(text[i + 1]) == 0xbf && uint8_t(text[i + 2]) >= 0xbe)
            good = false;
        if (!good) {
            out += '?';
            ++i;
            continue;
        }
        if (c == '&') out += "&amp;";
        else if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else if (c == '"') out += "&quot;";
        else out.append(text.substr(i, n));
        i += n;
    }
    return out;
}

/// Broken at blanks so that no line takes more than `columns`; a longer word stands alone.
std::vector<std::string> broken(std::string_view text, size_t columns) {
    std::vector<std::string> lines;
    std::string now;
    for (size_t from = 0; from <= text.size();) {
        const size_t to = std::min(text.find(' ', from), text.size());
        const std::string_view word = text.substr(from, to - from);
        if (!now.empty() && text_columns(now) + 1 + text_columns(word) > columns) {
            lines.push_back(std::move(now));
            now.clear();
        }
        if (!now.empty()) now += ' ';
        now += word;
        from = to + 1;
    }
    lines.push_back(std::move(now));
    return lines;
}

class painter {
public:
    painter(const graph& g, const picture& what, const svg_layout& at)
        : g_(g), what_(what), at_(at), loaded_(!what.load.empty()) {
        // Where cables crowd, the widest still leaves a gap to its neighbour.
        if (at.cable_pitch > 0) thin_ = std::min(1.0, at.cable_pitch / 8);
    }

    std::string run(const std::vector<std::string>& head, double legend_columns) {
        const auto foot = legend();
        const auto says = broken(explanation(), size_t(legend_columns));
        const double foot_y = at_.height + 32;
        const double foot_h = legend_height(foot) + double(says.size()) * line;
        const double height = foot_y + foot_h + 12;
        out_ = fmt::format(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
            "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<title>{2}</title>\n"
            "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            at_.width, height, escaped(head.front()));
        paint_head(head);
        out_ += "<g fill=\"none\" stroke-linecap=\"butt\">\n";
        // The loaded ones last, so that no unused cable covers them.
        std::vector<size_t> order(at_.cables.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return most_of(at_.cables[a]) < most_of(at_.cables[b]);
        });
        for (const size_t i : order) paint_cable(at_.cables[i]);
        out_ += "</g>\n";
        for (const svg_node& n : at_.nodes) paint_node(n);
        paint_legend(foot, says, foot_y);
        return std::move(out_ += "</svg>\n");
    }

private:
    struct direction {
        bool up = true;
        double load = 0;
    };

    /// The highest of the links, or of their reverses.
    direction direction_of(const svg_cable& c, bool back) const {
        direction d{false, 0};
        for (link_id l : c.links) {
            if (back) l = g_.edge(l).reverse;
            d.up |= g_.edge(l).up;
            if (loaded_) d.load = std::max(d.load, what_.load[l]);
        }
        return d;
    }

    double most_of(const svg_cable& c) const {
        return std::max(direction_of(c, false).load, direction_of(c, true).load);
    }

    const load_class& look_of(const direction& d) const {
        return !d.up ? down : !loaded_ ? plain : class_of(d.load);
    }

    std::string says(const svg_cable& c) const {
        std::string text;
        for (const bool back : {false, true}) {
            const link_id l = back ? g_.edge(c.links[0]).reverse : c.links[0];
            const direction d = direction_of(c, back);
            if (!text.empty()) text += "; ";
            text += g_.text_of(l);
            if (c.links.size() > 1) text += fmt::format(" and {} more", c.links.size() - 1);
            text += fmt::format(": {:g} Gb/s", g_.edge(l).gbps);
            if (!d.up) text += ", down";
            else if (loaded_) text += fmt::format(", {:.4g} flows", d.load);
        }
        return text;
    }

    void paint_cable(const svg_cable& c) {
        out_ += fmt::format("<g class=\"cable\"><title>{}</title>", escaped(says(c)));
        // The two halves of the quadratic curve a, bend, b (de Casteljau); of a line, if straight.
        const svg_point middle{(c.a.x + 2 * c.bend.x + c.b.x) / 4,
                               (c.a.y + 2 * c.bend.y + c.b.y) / 4};
        half(c.a, {(c.a.x + c.bend.x) / 2, (c.a.y + c.bend.y) / 2}, middle, direction_of(c, false));
        half(c.b, {(c.b.x + c.bend.x) / 2, (c.b.y + c.bend.y) / 2}, middle, direction_of(c, true));
        out_ += "</g>\n";
    }

    void half(svg_point from, svg_point bend, svg_point to, const direction& d) {
        const load_class& look = look_of(d);
        out_ += fmt::format(
            "<path d=\"M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}\" stroke=\"{}\" "
            "stroke-width=\"{:.2f}\"{}/>",
            from.x, from.y, bend.x, bend.y, to.x, to.y, look.colour,
            std::max(0.6, look.width * thin_), d.up ? "" : " stroke-dasharray=\"4 4\"");
    }

    void paint_node(const svg_node& n) {
        const node& v = g_.at(n.nodes.front());
        const char* fill = "#eef2f7";
        if (n.is_switch)
            fill = v.side == 1 || v.tier == 2 ? "#3d3a6b" : v.tier > 2 ? "#5a3557" : "#1f3f5f";
        std::string name = v.name;
        if (n.nodes.size() > 1) name = fmt::format("{} .. {}", name, g_.at(n.nodes.back()).name);
        out_ += fmt::format(
            "<g class=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
            "height=\"{:.1f}\" rx=\"{}\" fill=\"{}\" stroke=\"{}\"/>",
            n.is_switch          ? "switch"
            : n.nodes.size() > 1 ? "hosts"
                                 : "host",
            escaped(name), n.at.x, n.at.y, n.at.w, n.at.h, n.is_switch ? 4 : 3, fill,
            n.is_switch ? fill : "#9aa7b5");
        paint_lines(n);
        out_ += "</g>\n";
    }

    /// The lines of a label in the middle of its box; turned by a quarter where the box is upright.
    void paint_lines(const svg_node& n) {
        const double font = n.is_switch ? svg_switch_font : svg_host_font, step = 13;
        const double x = n.at.middle_x(), y = n.at.y + n.at.h / 2;
        for (size_t i = 0; i < n.lines.size(); ++i) {
            // Of the baseline: the middle of the lines, and a third of the font below it.
            const double off = (double(i) - double(n.lines.size() - 1) / 2) * step + font * 0.35;
            const bool first = i == 0;
            text(n.turned ? x + off : x, n.turned ? y : y + off, font,
                 n.is_switch ? (first ? "#ffffff" : "#d9e2ec") : (first ? "#1b2733" : "#4a5866"),
                 n.lines[i], "middle", n.is_switch && first, n.turned);
        }
    }

    void text(double x, double y, double font, const char* fill, std::string_view words,
              const char* anchor, bool bold, bool turned = false) {
        out_ += fmt::format(
            "<text x=\"{0:.1f}\" y=\"{1:.1f}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, "
            "Liberation Mono, monospace\" font-size=\"{2}\"{3}{4}{5} fill=\"{6}\">{7}</text>",
            x, y, font,
            std::string_view(anchor) == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor),
            bold ? " font-weight=\"bold\"" : "",
            turned ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y) : "", fill,
            escaped(words));
    }

    void paint_head(const std::vector<std::string>& head) {
        double y = margin + title_font * 0.6;
        text(margin, y, title_font, "#14202b", head.front(), "start", true);
        for (size_t i = 1; i < head.size(); ++i) {
            y += i == 1 ? 22 : line;
            text(margin, y, words_font, "#34424f", head[i], "start", false);
        }
        out_ += '\n';
    }

    // ---- legend: the classes that occur, each with its number of directed links
    struct sample {
        const load_class* look;
        std::string words;
    };

    std::vector<sample> legend() const {
        std::vector<sample> all;
        size_t dead = 0, total = g_.links().size();
        std::array<size_t, classes.size()> count{};
        for (link_id l = 0; l < total; ++l) {
            if (!g_.edge(l).up) ++dead;
            else if (loaded_) ++count[size_t(&class_of(what_.load[l]) - classes.data())];
        }
        const auto add = [&](const load_class& c, size_t n) {
            if (n > 0)
                all.push_back({&c, fmt::format("{}: {} link{}", c.says, n, n == 1 ? "" : "s")});
        };
        if (loaded_)
            for (size_t i = 0; i < classes.size(); ++i) add(classes[i], count[i]);
        else add(plain, total - dead);
        add(down, dead);
        return all;
    }

    std::string explanation() const {
        std::string text;
        if (loaded_)
            text = fmt::format(
                "Load: {}. Each half of a cable shows the direction that leaves the end it "
                "touches.",
                what_.load_says);
        if (at_.condensed)
            text += std::string(text.empty() ? "" : " ") +
                    "The hosts of a switch are one box; the line to it shows the highest of them.";
        return text.empty() ? "Each cable is two directed links." : text;
    }

    double sample_width(const sample& s) const {
        return 34 + double(text_columns(s.words)) * svg_advance * legend_font + 22;
    }

    double legend_height(const std::vector<sample>& foot) const {
        double x = margin, y = line;
        for (const sample& s : foot) {
            if (x > margin && x + sample_width(s) > at_.width - margin) x = margin, y += line;
            x += sample_width(s);
        }
        return y;
    }

    void paint_legend(const std::vector<sample>& foot, const std::vector<std::string>& says,
                      double y) {
        out_ += "<g class=\"legend\">";
        double x = margin;
        for (const sample& s : foot) {
            if (x > margin && x + sample_width(s) > at_.width - margin) x = margin, y += line;
            out_ += fmt::format(
                "<path d=\"M{:.1f} {:.1f}h26\" stroke=\"{}\" stroke-width=\"{}\"{}/>", x, y - 4,
                s.look->colour, s.look->width, s.look == &down ? " stroke-dasharray=\"4 4\"" : "");
            text(x + 34, y, legend_font, "#1b2733", s.words, "start", false);
            x += sample_width(s);
        }
        for (const std::string& l : says)
            text(margin, y += line, legend_font, "#5b6875", l, "start", false);
        out_ += "</g>\n";
    }

    const graph& g_;
    const picture& what_;
    const svg_layout& at_;
    const bool loaded_;
    double thin_ = 1;
    std::string out_;
};

/// Title and words, broken to the width.
std::vector<std::string> head_of(const graph& g, const picture& what, double width) {
    const auto columns = [&](double font) {
        return size_t((width - 2 * margin) / (svg_advance * font));
    };
    std::vector<std::string> head{what.title.empty() ? g.name : what.title};
    if (text_columns(head[0]) > columns(title_font)) {
        // The rest of a long title goes on among the words.
        auto lines = broken(head[0], columns(title_font));
        head.assign(1, lines[0]);
        std::string rest;
        for (size_t i = 1; i < lines.size(); ++i) rest += (i > 1 ? " " : "") + lines[i];
        if (!rest.empty())
            for (auto& l : broken(rest, columns(words_font))) head.push_back(std::move(l));
    }
    for (const std::string& w : what.words)
        for (auto& l : broken(w, columns(words_font))) head.push_back(std::move(l));
    return head;
}

}  // namespace

result<std::string> draw_svg(const graph& g, const picture& what) {
    if (!what.load.empty() && what.load.size() != g.links().size())
        return status(EF_INVALID, fmt::format("draw_svg: {} loads of {} links", what.load.size(),
                                              g.links().size()));
    if (!what.notes.empty() && what.notes.size() != g.nodes().size())
        return status(EF_INVALID, fmt::format("draw_svg: {} notes of {} nodes", what.notes.size(),
                                              g.nodes().size()));
    // The head's height follows from the width, and the width does not follow from the height.
    result<svg_layout> at = lay_out(g, what.notes, 0);
    if (!at.ok()) return at.why();
    const std::vector<std::string> head = head_of(g, what, at->width);
    const double top =
        margin + title_font + (head.size() > 1 ? 10 : 0) + double(head.size() - 1) * line + 16;
    at = lay_out(g, what.notes, top);
    if (!at.ok()) return at.why();
    const double columns = (at->width - 2 * margin) / (svg_advance * legend_font);
    return painter(g, what, *at).run(head, columns);
}

}  // namespace ef::fabric
