// svg: a fabric as a picture. Each cable is one line in two halves: a half has the colour and width
// of what leaves the end that it touches, so both directions are seen. Above it a title, below it
// what the colours mean and how many directed links have each.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <string>
#include <vector>

namespace ef::fabric {

struct picture {
    std::string title;               // empty: the name of the fabric
    std::vector<std::string> words;  // lines below the title; long ones are broken
    // Flows on the directed link, by link id. Empty: cables are drawn without a load.
    std::vector<double> load;
    std::string load_says = "most flows in one round";  // what `load` counts
    std::vector<std::string>
        notes;  // by node id: a second line below the name ("rank 3"); or empty
};

/// SVG 1.1 without scripts, fonts or references, white background. Above 160 hosts, or 20 on one
/// switch, the hosts of a switch are one box and its cable shows the highest load of them.
/// EF_UNSUPPORTED above 64 switches; EF_INVALID if a vector has not one entry per link or node.
result<std::string> draw_svg(const graph& g, const picture& what);

}  // namespace ef::fabric
