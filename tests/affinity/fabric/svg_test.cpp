// Pictures are read back: XML by a parser of its own, boxes and texts as rectangles.
#include "affinity/fabric/svg.hpp"

#include "affinity/fabric/svg_layout.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace ef::fabric {
namespace {

struct element {
    std::string name, text;
    std::map<std::string, std::string> attributes;
    int parent = -1;
    double number(const std::string& key) const {
        const auto it = attributes.find(key);
        return it == attributes.end() ? NAN : std::stod(it->second);
    }
    std::string get(const std::string& key) const {
        const auto it = attributes.find(key);
        return it == attributes.end() ? std::string() : it->second;
    }
};

/// What XML needs to be well-formed, as far as a picture uses it. Throws what is wrong.
class xml_reader {
public:
    explicit xml_reader(const std::string& text) : t_(text) {}

    std::vector<element> run() {
        expect("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        std::vector<int> open;
        while (at_ < t_.size()) {
            if (t_[at_] != '<') {
                const std::string text = characters('<');
                if (!open.empty()) all_[size_t(open.back())].text += text;
                else if (text.find_first_not_of(" \n") != std::string::npos)
                    fail("text at the top");
            } else if (t_[at_ + 1] == '/') {
                at_ += 2;
                const std::string name = word();
                if (open.empty() || all_[size_t(open.back())].name != name)
                    fail("closes " + name + ", which is not open");
                open.pop_back();
                expect(">");
            } else {
                ++at_;
                if (open.empty() && !all_.empty()) fail("a second root");
                element e;
                e.parent = open.empty() ? -1 : open.back();
                e.name = word();
                const bool closed = attributes(e);
                all_.push_back(e);
                if (!closed) open.push_back(int(all_.size()) - 1);
            }
        }
        if (!open.empty()) fail(all_[size_t(open.back())].name + " is left open");
        return all_;
    }

private:
    [[noreturn]] void fail(const std::string& why) const {
        throw std::runtime_error(fmt::format("at byte {}: {}", at_, why));
    }
    void expect(const std::string& what) {
        if (t_.compare(at_, what.size(), what) != 0) fail("expected " + what);
        at_ += what.size();
    }
    std::string word() {
        const size_t from = at_;
        while (at_ < t_.size() && (isalnum(t_[at_]) || strchr("-_:", t_[at_]))) ++at_;
        if (at_ == from) fail("expected a name");
        return t_.substr(from, at_ - from);
    }
    std::string characters(char end) {
        std::string out;
        while (at_ < t_.size() && t_[at_] != end) {
            const unsigned char c = static_cast<unsigned char>(t_[at_]);
            if (c < 0x20 && c != '\n') fail("a control character");
            if (c == '<') fail("a bare <");
            if (c != '&') {
                out += t_[at_++];
                continue;
            }
            const size_t to = t_.find(';', at_);
            const std::string entity = t_.substr(at_, to - at_ + 1);
            const std::map<std::string, char> known = {
                {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}};
            const auto it = known.find(entity);
            if (it == known.end()) fail("a bare &");
            out += it->second;
            at_ = to + 1;
        }
        return out;
    }
    /// True if the element is closed at once.
    bool attributes(element& e) {
        for (;;) {
            while (at_ < t_.size() && (t_[at_] == ' ' || t_[at_] == '\n')) ++at_;
            if (t_.compare(at_, 2, "/>") == 0) return at_ += 2, true;
            if (t_[at_] == '>') return ++at_, false;
            const std::string key = word();
            expect("=\"");
            if (!e.attributes.emplace(key, characters('"')).second) fail(key + " stands twice");
            expect("\"");
        }
    }

    const std::string& t_;
    size_t at_ = 0;
    std::vector<element> all_;
};

struct rectangle {
    double x0, y0, x1, y1;
    std::string what;
    bool meets(const rectangle& o) const {
        constexpr double slack = 0.11;  // coordinates are printed with one decimal
        return x0 < o.x1 - slack && o.x0 < x1 - slack && y0 < o.y1 - slack && o.y0 < y1 - slack;
    }
    bool holds(const rectangle& o) const {
        constexpr double slack = 0.11;
        return x0 <= o.x0 + slack && o.x1 <= x1 + slack && y0 <= o.y0 + slack && o.y1 <= y1 + slack;
    }
};

rectangle extent_of(const element& text) {
    const double font = text.number("font-size");
    const double w = 0.603 * font * double(text_columns(text.text));
    double x = text.number("x"), y = text.number("y");
    const std::string turn = text.get("transform");
    if (text.get("text-anchor") == "middle") x -= w / 2;
    // Ascent and descent of a line of small letters, capitals and digits.
    rectangle r{x, y - 0.76 * font, x + w, y + 0.22 * font, text.text};
    if (turn.empty()) return r;
    EXPECT_EQ(turn, fmt::format("rotate(-90 {:.1f} {:.1f})", text.number("x"), y));
    const double cx = text.number("x");  // (dx, dy) from (cx, y) goes to (dy, -dx)
    return {cx + (r.y0 - y), y - (r.x1 - cx), cx + (r.y1 - y), y - (r.x0 - cx), text.text};
}

struct drawing {
    std::vector<element> all;
    std::vector<rectangle> boxes, texts;
    std::map<std::string, rectangle> box;  // by title of the node
    rectangle paper{};

    const element& parent(const element& e) const { return all[size_t(e.parent)]; }
    std::string title(int group) const {
        for (const element& e : all)
            if (e.parent == group && e.name == "title") return e.text;
        return {};
    }
    std::vector<int> groups(const std::string& cls) const {
        std::vector<int> found;
        for (size_t i = 0; i < all.size(); ++i)
            if (all[i].name == "g" && all[i].get("class") == cls) found.push_back(int(i));
        return found;
    }
};

drawing read(const std::string& svg) {
    drawing d;
    try {
        d.all = xml_reader(svg).run();
    } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        return d;
    }
    const element& root = d.all[0];
    EXPECT_EQ(root.name, "svg");
    d.paper = {0, 0, root.number("width"), root.number("height"), "paper"};
    for (const element& e : d.all) {
        if (e.name == "text") d.texts.push_back(extent_of(e));
        if (e.name != "rect" || e.get("class") == "paper") continue;
        const double x = e.number("x"), y = e.number("y");
        d.boxes.push_back({x, y, x + e.number("width"), y + e.number("height"), d.title(e.parent)});
        d.box[d.boxes.back().what] = d.boxes.back();
    }
    return d;
}

/// Nothing lies on anything else, labels are inside their boxes, all is on the paper.
void expect_tidy(const drawing& d) {
    const auto apart = [](const std::vector<rectangle>& all) {
        for (size_t i = 0; i < all.size(); ++i)
            for (size_t k = i + 1; k < all.size(); ++k)
                EXPECT_FALSE(all[i].meets(all[k])) << all[i].what << " on " << all[k].what;
    };
    apart(d.boxes);
    apart(d.texts);
    for (const rectangle& t : d.texts) {
        EXPECT_TRUE(d.paper.holds(t)) << t.what << " leaves the paper";
        for (const rectangle& b : d.boxes) {
            EXPECT_TRUE(!t.meets(b) || b.holds(t)) << t.what << " leaves the box of " << b.what;
        }
    }
    for (const rectangle& b : d.boxes) EXPECT_TRUE(d.paper.holds(b)) << b.what;
}

/// Each node and each cable is there exactly once, and a cable ends at its two nodes.
void expect_complete(const graph& g, const drawing& d) {
    EXPECT_EQ(d.groups("switch").size(), g.switches().size());
    EXPECT_EQ(d.groups("host").size(), g.hosts().size());
    for (const node& n : g.nodes()) EXPECT_TRUE(d.box.count(n.name)) << n.name;
    std::map<std::string, link_id> wanted;  // the start of the title
    for (link_id l = 0; l < g.links().size(); ++l)
        if (l < g.edge(l).reverse) wanted[g.text_of(l)] = l;
    const std::vector<int> cables = d.groups("cable");
    EXPECT_EQ(cables.size(), wanted.size());
    std::set<std::string> seen;
    for (const int c : cables) {
        const std::string title = d.title(c), name = title.substr(0, title.find(": "));
        EXPECT_TRUE(seen.insert(name).second) << name << " twice";
        const auto it = wanted.find(name);
        ASSERT_NE(it, wanted.end()) << title;
        const node_id ends[] = {g.edge(it->second).from, g.edge(it->second).to};
        int half = 0;
        for (const element& e : d.all) {
            if (e.parent != c || e.name != "path") continue;
            double x = 0, y = 0;
            ASSERT_EQ(sscanf(e.get("d").c_str(), "M%lf %lfQ", &x, &y), 2);
            ASSERT_LT(half, 2);
            const rectangle& box = d.box.at(g.at(ends[half++]).name);
            EXPECT_TRUE(box.holds({x, y, x, y, {}})) << name << " does not reach " << box.what;
        }
        EXPECT_EQ(half, 2);
    }
}

picture loaded(const graph& g) {
    picture p;
    p.words = {"allreduce by hdrm: congestion-free: at most 1 flow per link in each of 8 rounds"};
    for (link_id l = 0; l < g.links().size(); ++l) p.load.push_back(double(l % 11));
    p.notes.resize(g.nodes().size());
    for (size_t i = 0; i < g.hosts().size(); ++i) p.notes[g.hosts()[i]] = fmt::format("rank {}", i);
    return p;
}

class Picture : public testing::TestWithParam<const char*> {};

TEST_P(Picture, ShowsEveryNodeAndCableOnceAndNothingOnTopOfAnother) {
    const result<graph> g = make_from_text(GetParam());
    ASSERT_TRUE(g.ok()) << g.why().text();
    for (const picture& p : {picture{}, loaded(*g)}) {
        const result<std::string> svg = draw_svg(*g, p);
        ASSERT_TRUE(svg.ok()) << svg.why().text();
        const drawing d = read(*svg);
        expect_tidy(d);
        expect_complete(*g, d);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Picture,
                         testing::Values("bigraph:S=4,H=2", "bigraph:S=1,H=1",
                                         "bigraph:S=4,H=8,L=2", "bigraph:S=2,H=2,rails=2",
                                         "bigraph:S=8,H=8", "leafspine:leaves=4,hosts=4,spines=4",
                                         "single:hosts=16", "fattree:k=4", "bigraph:S=32,H=2"),
                         [](const auto& p) { return fmt::format("F{}", p.index); });

TEST(Svg, PutsSwitchesOfSideUAboveThoseOfLAndTheHostsOutside) {
    const graph g = make_bigraph({4, 2, 1, 1}, 100);
    const drawing d = read(*draw_svg(g, {}));
    for (const char* u : {"U0", "U3"})
        for (const char* l : {"L0", "L3"}) EXPECT_LT(d.box.at(u).y1, d.box.at(l).y0);
    EXPECT_LT(d.box.at("U0p0").y1, d.box.at("U0").y0);
    EXPECT_GT(d.box.at("L0p0").y0, d.box.at("L0").y1);
    for (const char* s : {"U", "L"})
        for (int i = 0; i < 3; ++i)
            EXPECT_LT(d.box.at(fmt::format("{}{}", s, i)).x1,
                      d.box.at(fmt::format("{}{}", s, i + 1)).x0);
}

TEST(Svg, PutsHigherTiersHigher) {
    const drawing d = read(*draw_svg(make_fat_tree(4, 100), {}));
    EXPECT_LT(d.box.at("c0").y1, d.box.at("p0a0").y0);
    EXPECT_LT(d.box.at("p0a0").y1, d.box.at("p0e0").y0);
    EXPECT_LT(d.box.at("p0e0").y1, d.box.at("p0e0h0").y0);
}

TEST(Svg, ShowsEachDirectionInTheHalfThatLeavesItsEndAndCountsItInTheLegend) {
    const graph g = make_bigraph({1, 1, 1, 1}, 100);
    picture p;
    p.load.assign(g.links().size(), 0);
    link_id there = none;
    for (link_id l = 0; l < g.links().size(); ++l)
        if (g.text_of(l) == "U0-L0") there = l;
    ASSERT_NE(there, none);
    p.load[there] = 2;
    p.load[g.edge(there).reverse] = 7;
    const drawing d = read(*draw_svg(g, p));
    std::map<std::string, double> width;  // by colour
    for (const int c : d.groups("cable")) {
        if (d.title(c).find("L0") == std::string::npos ||
            d.title(c).find("p0") != std::string::npos)
            continue;
        for (const element& e : d.all) {
            if (e.parent != c || e.name != "path") continue;
            double x = 0, y = 0;
            ASSERT_EQ(sscanf(e.get("d").c_str(), "M%lf %lfQ", &x, &y), 2);
            const bool from_u = d.box.at("U0").holds({x, y, x, y, {}});
            EXPECT_EQ(e.get("stroke"), from_u ? "#e8a317" : "#b3172d");
            width[e.get("stroke")] = e.number("stroke-width");
        }
    }
    ASSERT_EQ(width.size(), 2u);
    EXPECT_LT(width["#e8a317"], width["#b3172d"]) << "more load is wider";
    std::set<std::string> texts;
    for (const rectangle& t : d.texts) texts.insert(t.what);
    EXPECT_TRUE(texts.count("no flow: 4 links"));
    EXPECT_TRUE(texts.count("2 flows: 1 link"));
    EXPECT_TRUE(texts.count("5 to 8 flows: 1 link"));
}

TEST(Svg, MarksWhatIsDown) {
    graph g = make_bigraph({2, 1, 1, 1}, 100);
    g.set_switch_up(g.find("L1"), false);
    const std::string svg = *draw_svg(g, loaded(g));
    const drawing d = read(svg);
    size_t dashed = 0;
    for (const element& e : d.all) dashed += e.name == "path" && !e.get("stroke-dasharray").empty();
    EXPECT_EQ(dashed, 2 * 3 + 1u) << "two halves of three cables, and the legend";
    EXPECT_NE(svg.find("down: 6 links"), std::string::npos);
}

TEST(Svg, EscapesNamesAndShortensLongOnesToWhatTheirBoxHolds) {
    graph g;
    g.name = "<&\"'> \x01 \xff\xc3";
    const node_id s = g.add_switch("rack <7> & the one with the very long name \xe6\xa9\x9f", 1);
    for (int i = 0; i < 3; ++i)
        g.add_cable(g.add_host(fmt::format("a-host-name-that-is-far-too-long-for-its-box-{}", i)),
                    s, 100);
    g.add_cable(g.add_host("\xe6\xa9\x9f\xe6\xa2\xb0 \xe2\x82\xac"), s, 100);
    const drawing d = read(*draw_svg(g, loaded(g)));
    expect_tidy(d);
    expect_complete(g, d);
    std::set<std::string> texts;
    for (const rectangle& t : d.texts) texts.insert(t.what);
    EXPECT_TRUE(texts.count("<&\"'> ? ??"));
    for (const char* host : {"too-long-for-its-box-0", "1", "2"}) {
        size_t ends = 0;
        for (const std::string& t : texts) ends += t.ends_with(std::string(host).back());
        EXPECT_GE(ends, 1u) << "the end of a long name is kept: " << host;
    }
}

TEST(Svg, DrawsCablesBetweenSwitchesOfOneRowAsCurves) {
    graph g;
    g.name = "a ring of switches";
    std::vector<node_id> s;
    for (int i = 0; i < 5; ++i) {
        s.push_back(g.add_switch(fmt::format("s{}", i), 1));
        g.add_cable(g.add_host(fmt::format("h{}", i)), s.back(), 10);
    }
    for (size_t i = 0; i < 5; ++i) g.add_cable(s[i], s[(i + 1) % 5], 10);
    const drawing d = read(*draw_svg(g, loaded(g)));
    expect_tidy(d);
    expect_complete(g, d);
    for (const int c : d.groups("cable")) {
        if (d.title(c)[0] != 's') continue;
        for (const element& e : d.all) {
            if (e.parent != c || e.name != "path") continue;
            double x0, y0, bx, by, x1, y1;
            ASSERT_EQ(sscanf(e.get("d").c_str(), "M%lf %lfQ%lf %lf %lf %lf", &x0, &y0, &bx, &by,
                             &x1, &y1),
                      6);
            EXPECT_LT(y1, y0) << "the middle is above its ends, which are at the boxes";
        }
    }
}

TEST(Svg, DrawsTheHostsOfASwitchAsOneBoxWhereThereAreMany) {
    const graph g = make_bigraph({32, 32, 1, 1}, 100);
    const std::string svg = *draw_svg(g, loaded(g));
    const drawing d = read(svg);
    EXPECT_EQ(d.groups("switch").size(), 64u);
    EXPECT_EQ(d.groups("hosts").size(), 64u);
    EXPECT_EQ(d.groups("host").size(), 0u);
    EXPECT_EQ(d.groups("cable").size(), 32u * 32 + 64);
    expect_tidy(d);
    EXPECT_NE(svg.find(">32 hosts<"), std::string::npos);
}

TEST(Svg, RefusesMoreSwitchesThanAPictureCanShow) {
    const result<std::string> svg = draw_svg(make_bigraph({33, 1, 1, 1}, 100), {});
    ASSERT_FALSE(svg.ok());
    EXPECT_EQ(svg.why().code(), EF_UNSUPPORTED);
    EXPECT_NE(svg.why().text().find("a picture of 66 switches cannot be read; the most is 64"),
              std::string::npos)
        << svg.why().text();
}

TEST(Svg, RefusesLoadsAndNotesThatAreNotOnePerLinkAndNode) {
    const graph g = make_single(2, 100);
    picture p;
    p.load = {1};
    EXPECT_EQ(draw_svg(g, p).why().text(), "draw_svg: 1 loads of 4 links");
    p.load.clear();
    p.notes = {"x"};
    EXPECT_EQ(draw_svg(g, p).why().text(), "draw_svg: 1 notes of 3 nodes");
}

}  // namespace
}  // namespace ef::fabric
