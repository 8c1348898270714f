#include "affinity/fabric/load.hpp"

#include "affinity/fabric/file_source.hpp"
#include "affinity/fabric/ibnetdiscover.hpp"
#include "affinity/fabric/json.hpp"
#include "affinity/fabric/slurm.hpp"

#include <fmt/format.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>

namespace ef::fabric {
namespace {

bool begins(std::string_view line, std::string_view word) noexcept {
    return line.size() >= word.size() && strncasecmp(line.data(), word.data(), word.size()) == 0;
}

// By the first line that is neither blank nor a comment.
result<file_format> recognise(const source& s) {
    std::string_view text = s.text;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        while (!line.empty() && (line[0] == ' ' || line[0] == '\t' || line[0] == '\r'))
            line.remove_prefix(1);
        if (!line.empty() && line[0] == '{') return file_format::json;
        for (std::string_view word : {"SwitchName=", "BlockName=", "BlockSizes="})
            if (begins(line, word)) return file_format::slurm;
        for (std::string_view word :
             {"# Topology file:", "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=",
              "rtguid=", "Switch\t", "Switch ", "Ca\t", "Ca ", "Rt\t", "Rt "})
            if (line.starts_with(word)) return file_format::ibnetdiscover;
        if (!line.empty() && line[0] != '#')
            return line_error(s, size_t(line.data() - s.text.data()),
                              fmt::format("{} begins no fabric file: neither our JSON nor "
                                          "ibnetdiscover output nor Slurm's topology.conf",
                                          shown(line)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return line_error(s, s.text.size(), "the file is empty");
}

result<graph> parse(const source& s, file_format format) {
    if (format == file_format::recognise) {
        const result<file_format> found = recognise(s);
        if (!found.ok()) return found.why();
        format = *found;
    }
    switch (format) {
    case file_format::json:
        return read_json(s);
    case file_format::ibnetdiscover:
        return read_ibnetdiscover(s);
    case file_format::slurm:
        return read_slurm(s);
    case file_format::recognise:
        break;
    }
    return status(EF_INVALID, s.name + ": no format");
}

// "word:..."; a file may be called so too, if there is one.
bool is_generator(std::string_view text) noexcept {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    return std::all_of(text.begin(), text.begin() + std::ptrdiff_t(colon),
                       [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '-'; });
}

}  // namespace

result<graph> load_fabric(std::string_view path_or_text, file_format format) {
    const std::string path(path_or_text);
    if (format == file_format::recognise && is_generator(path_or_text) &&
        access(path.c_str(), F_OK) != 0)
        return make_from_text(path_or_text);
    const result<source> s = read_source(path);
    if (s.ok()) return parse(*s, format);
    if (access(path.c_str(), F_OK) == 0) return s.why();
    return status(EF_INVALID, std::string(s.why().text()) +
                                  "; give a fabric file, or a generator such as "
                                  "bigraph:S=4,H=2 (eflops-fabric(5))");
}

result<graph> parse_fabric(std::string name, std::string text, file_format format) {
    if (text.size() > max_file_bytes)
        return status(EF_INVALID, name + ": larger than a fabric file may be");
    return parse({std::move(name), std::move(text)}, format);
}

std::string write_fabric(const graph& g) { return write_json(g); }

}  // namespace ef::fabric
