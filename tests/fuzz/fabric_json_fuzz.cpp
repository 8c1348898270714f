// A fabric file of our own format: any bytes are read, or refused in one printable line that begins
// with the place; what is read is sound, and is the same graph after it was written.
#include "affinity/fabric/load.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

using namespace ef;
using namespace ef::fabric;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    // A few bytes may name a fabric of a million hosts, which is right but takes a second.
    if (text.find("generate") != text.npos) return 0;
    const result<graph> g = parse_fabric("f", text, file_format::json);
    if (!g.ok()) {
        const status why = g.why();
        if (!why.text().starts_with("f:") || why.text().size() > 1000) abort();
        for (char c : why.text())
            if (c < ' ' || c > '~') abort();
        return 0;
    }
    if (!g->check().ok() || g->hosts().empty()) abort();
    if (g->links().size() > 20'000) return 0;
    const std::string written = write_fabric(*g);
    const result<graph> again = parse_fabric("f", written, file_format::json);
    if (!again.ok() || write_fabric(*again) != written) abort();
    return 0;
}
