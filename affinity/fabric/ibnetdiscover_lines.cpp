#include "affinity/fabric/ibnetdiscover_lines.hpp"

#include "affinity/fabric/ibnetdiscover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

namespace ef::fabric {
namespace {

// One line, from left to right.
class cursor {
public:
    explicit cursor(std::string_view rest) : rest_(rest) {}

    void blanks() noexcept {
        while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
    }
    bool skip(std::string_view word) noexcept {
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    bool number(uint32_t& out) noexcept {
        const auto [end, err] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
        if (err != std::errc() || out > 65535) return false;
        rest_.remove_prefix(size_t(end - rest_.data()));
        return true;
    }
    /// "[12]", and the "[ext 3]" that may follow it.
    bool port(uint32_t& out) noexcept {
        if (!skip("[") || !number(out) || !skip("]")) return false;
        if (skip("[ext")) through(']');
        return true;
    }
    /// "(248a0703008a8530)", if there is one.
    bool guid() noexcept { return !rest_.starts_with('(') || through(')'); }
    bool through(char end) noexcept {
        const size_t at = rest_.find(end);
        if (at == std::string_view::npos) return false;
        rest_.remove_prefix(at + 1);
        return true;
    }
    /// "S-248a07030091dd00" in quotes: without them.
    bool id(std::string_view& out) noexcept {
        if (!skip("\"")) return false;
        const size_t end = rest_.find('"');
        if (end == std::string_view::npos || end < 3 || end > 64 || rest_[1] != '-') return false;
        out = rest_.substr(0, end);
        for (char ch : out.substr(2))
            if (!isxdigit(static_cast<unsigned char>(ch))) return false;
        rest_.remove_prefix(end + 1);
        return out[0] == 'S' || out[0] == 'H' || out[0] == 'R';
    }
    std::string_view rest() const noexcept { return rest_; }

private:
    std::string_view rest_;
};

// The description may hold quotes; what comes behind it holds none.
bool description(std::string_view rest, std::string_view& out) noexcept {
    const size_t begin = rest.find('"'), end = rest.rfind('"');
    if (begin == std::string_view::npos || end == begin) return false;
    out = rest.substr(begin + 1, end - begin - 1);
    return true;
}

// Behind the peer's description: lid 12 4xEDR s=5 w=2
double speed(std::string_view rest) noexcept {
    if (const size_t quote = rest.rfind('"'); quote != std::string_view::npos)
        rest.remove_prefix(quote + 1);
    while (!rest.empty()) {
        const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
        if (const double g = infiniband_gbps(rest.substr(0, end)); g > 0) return g;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return 0;
}

class lines_reader {
public:
    explicit lines_reader(const source& s) : source_(s) {}

    result<ib_lines> read() {
        const std::string_view text = source_.text;
        for (size_t at = 0; at < text.size();) {
            const size_t end = std::min(text.find('\n', at), text.size());
            std::string_view line = text.substr(at, end - at);
            if (line.ends_with('\r')) line.remove_suffix(1);
            at_ = at;
            if (status s = read_line(line); !s.ok()) return s;
            at = end + 1;
        }
        return std::move(out_);
    }

private:
    status refuse(std::string_view reason) const { return line_error(source_, at_, reason); }

    status read_line(std::string_view line) {
        cursor c(line);
        c.blanks();
        const std::string_view all = c.rest();
        if (all.empty() || all[0] == '#') return {};
        if (all[0] == '[') return read_wire(c);
        for (std::string_view known : {"vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=",
                                       "rtguid=", "Chassis ", "Non-Chassis Nodes"})
            if (all.starts_with(known)) return {};
        constexpr struct {
            std::string_view word;
            char kind;
        } sections[] = {{"Switch", 'S'}, {"Ca", 'H'}, {"Rt", 'R'}};
        for (const auto& s : sections)
            if (c.skip(s.word) && (c.rest().empty() || c.rest()[0] == ' ' || c.rest()[0] == '\t'))
                return read_device(c, s.kind);
        return refuse(fmt::format("{} is no line of ibnetdiscover", shown(all)));
    }

    status read_device(cursor c, char kind) {
        ib_device d;
        d.kind = kind;
        d.at = at_;
        c.blanks();
        bool good = c.number(d.ports);
        c.blanks();
        good = good && c.id(d.id);
        if (!good || !description(c.rest(), d.description))
            return refuse("not a whole section header: number of ports, \"id\", # \"description\"");
        if (d.id[0] != kind)
            return refuse(fmt::format("id {} is not one of this kind, it would begin with {}-",
                                      shown(d.id), kind));
        if (out_.devices.size() >= max_nodes)
            return refuse(fmt::format("more than {} devices", max_nodes));
        out_.devices.push_back(d);
        return {};
    }

    status read_wire(cursor c) {
        if (out_.devices.empty()) return refuse("a port before any Switch or Ca");
        ib_wire w;
        w.device = uint32_t(out_.devices.size() - 1);
        w.at = at_;
        bool good = c.port(w.port) && c.guid();
        c.blanks();
        good = good && c.id(w.peer) && c.port(w.peer_port) && c.guid();
        c.blanks();
        if (!good || !c.skip("#"))
            return refuse("not a whole port line: [port] \"id\"[port] # description and speed");
        w.gbps = speed(c.rest());
        if (!(w.gbps > 0))
            return refuse(fmt::format("no width and speed such as 4xEDR in {}", shown(c.rest())));
        const ib_device& d = out_.devices.back();
        if (w.port == 0 || w.port > d.ports)
            return refuse(
                fmt::format("port {} of {}, which has {} ports", w.port, shown(d.id), d.ports));
        if (out_.wires.size() >= 2 * max_cables)
            return refuse(fmt::format("more than {} cables", max_cables));
        out_.wires.push_back(w);
        return {};
    }

    const source& source_;
    size_t at_ = 0;
    ib_lines out_;
};

}  // namespace

double infiniband_gbps(std::string_view word) noexcept {
    // Per lane, signalling rate less its coding: 2.5 x 8/10, .. 10.3125 and 14.0625 x 64/66, ..
    // 25.78125 x 64/66, and from HDR on less forward error correction too.
    constexpr struct {
        std::string_view name;
        double gbps;
    } speeds[] = {{"SDR", 2},  {"DDR", 4},  {"QDR", 8},   {"FDR10", 10}, {"FDR", 14.0625 * 64 / 66},
                  {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
    uint32_t width = 0;
    const auto [end, err] = std::from_chars(word.data(), word.data() + word.size(), width);
    if (err != std::errc()) return 0;
    word.remove_prefix(size_t(end - word.data()));
    if (width != 1 && width != 2 && width != 4 && width != 8 && width != 12) return 0;
    if (word.empty() || (word[0] != 'x' && word[0] != 'X')) return 0;
    const auto s = std::find_if(std::begin(speeds), std::end(speeds),
                                [&](const auto& x) { return x.name == word.substr(1); });
    return s == std::end(speeds) ? 0 : width * s->gbps;
}

result<ib_lines> read_ib_lines(const source& s) { return lines_reader(s).read(); }

}  // namespace ef::fabric
