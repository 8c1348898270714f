// svg_layout: where everything of a fabric's picture stands. Apart from the drawing, so that tests
// can hold it to its promises: every node and every cable once, no box on another, no label wider
// than its box.
//
//      BiGraph                                  tiers
//      [hosts]  [hosts]                              [spine0] [spine1]
//       [U0]     [U1]                                   |  \ /   |
//         |  \ /  |                                  [leaf0]  [leaf1]
//       [L0]     [L1]                                [hosts]  [hosts]
//      [hosts]  [hosts]
//
// Parts of a fabric that no cable joins (the planes of several rails) stand beside each other.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <array>

namespace ef::fabric {

struct svg_point {
    double x = 0, y = 0;
};

struct svg_box {
    double x = 0, y = 0, w = 0, h = 0;  // left, top, width, height
    double middle_x() const noexcept { return x + w / 2; }
    double bottom() const noexcept { return y + h; }
};

struct svg_node {
    std::vector<node_id> nodes;  // one; or all hosts of a switch, drawn as one box
    bool is_switch = false;
    bool turned = false;  // the text runs upwards
    svg_box at;
    std::vector<std::string> lines;  // of text: name, note
};

struct svg_cable {
    std::vector<link_id> links;  // leaving `a`: one; or those to hosts drawn as one box
    svg_point a, b, bend;        // bend: control point of a curve; halfway for a straight line
};

struct svg_layout {
    double width = 0, height = 0;
    bool condensed = false;  // hosts of a switch are one box
    std::vector<svg_node> nodes;
    std::vector<svg_cable> cables;
    double cable_pitch = 0;  // the least distance of two cables at a switch
};

inline constexpr size_t svg_most_switches = 64;
inline constexpr double svg_switch_font = 12, svg_host_font = 10;  // pixels
// Advance of one character of a monospaced font, in font sizes (0.60 Courier, Menlo and Liberation,
// 0.602 DejaVu). Labels are monospaced because their width is then known without a font.
inline constexpr double svg_advance = 0.603;

/// Columns that a text takes: code points, wide ones (east Asian) count twice; bytes that are no
/// UTF-8 one each.
size_t text_columns(std::string_view text) noexcept;

/// `notes`: by node id, a second line below the name; or empty. EF_UNSUPPORTED above
/// svg_most_switches switches. `top`: pixels to leave free above.
result<svg_layout> lay_out(const graph& g, std::span<const std::string> notes, double top);

}  // namespace ef::fabric
