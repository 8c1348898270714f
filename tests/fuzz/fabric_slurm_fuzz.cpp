// A Slurm topology.conf: any bytes are read, or refused in one printable line that begins with
// the place; what is read is sound and can be written as our own format and read again.
#include "affinity/fabric/load.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

using namespace ef;
using namespace ef::fabric;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const result<graph> g = parse_fabric("f", text, file_format::slurm);
    if (!g.ok()) {
        const status why = g.why();
        if (!why.text().starts_with("f:") || why.text().size() > 1000) abort();
        for (char c : why.text())
            if (c < ' ' || c > '~') abort();
        return 0;
    }
    if (!g->check().ok() || g->hosts().empty()) abort();
    if (g->links().size() > 20'000) return 0;
    const result<graph> again = parse_fabric("f", write_fabric(*g), file_format::json);
    if (!again.ok() || again->links().size() != g->links().size()) abort();
    return 0;
}
