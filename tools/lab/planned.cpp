#include "tools/lab/planned.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace ef::lab {

using namespace fabric;
using nlohmann::json;

result<std::vector<double>> planned_bytes(const lab& l, const std::string& file,
                                          double vector_bytes) {
    std::ifstream in(file);
    if (!in) return system_error(file, errno);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const graph& g = l.net();
    std::map<std::string, link_id> by_name;
    for (link_id i = 0; i < g.links().size(); ++i) by_name[g.text_of(i)] = i;
    // Ethernet counts 14 bytes of a packet, IP and TCP with a timestamp 52.
    const double mtu = l.how().mtu, wire = (mtu + 14) / (mtu - 52);
    std::vector<double> bytes(g.links().size(), -1);
    try {
        const json plan = json::parse(text);
        for (const json& i : plan.at("links")) {
            const std::string name = i.at("name");
            const auto at = by_name.find(name);
            if (at == by_name.end())
                return status(EF_INVALID, fmt::format("{}: {} is no link of lab {} ({})", file,
                                                      name, l.how().name, g.name));
            bytes[at->second] = i.at("share_of_vector").get<double>() * vector_bytes * wire;
        }
    } catch (const json::exception& e) {
        return status(EF_INVALID, fmt::format("{}: not what `ef_plan show FABRIC --algorithm NAME "
                                              "--json` prints: {}",
                                              file, e.what()));
    }
    for (link_id i = 0; i < bytes.size(); ++i)
        if (bytes[i] < 0)
            return status(EF_INVALID, fmt::format("{}: link {} is missing", file, g.text_of(i)));
    return bytes;
}

}  // namespace ef::lab
