// What ranks are told about each other's paths comes from outside: any record is refused or means
// the same when it is written again. The first byte of the input chooses the kind of record.
#include "transport/path/steer_wire.hpp"

#include <cstdlib>

namespace {

constexpr ef::rank_t nranks = 16;

void require(bool holds) {
    if (!holds) abort();
}

bool same(const ef::bytes& written, std::span<const std::byte> in) {
    return written == ef::bytes(in.begin(), in.end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace ef::path;
    if (size == 0) return 0;
    const auto in = std::as_bytes(std::span(data + 1, size - 1));
    if (data[0] % 2 == 0) {
        std::vector<found_flow> flows;
        if (!parse_found(in, nranks, flows)) return 0;
        for (const found_flow& f : flows) require(f.to >= 0 && f.to < nranks);
        require(same(write_found(flows), in));
    } else {
        std::vector<checked_path> paths;
        if (!parse_checked(in, nranks, paths)) return 0;
        for (const checked_path& p : paths) {
            require(p.from >= 0 && p.from < nranks && p.to >= 0 && p.to < nranks);
            require(p.state <= path_state::unknown);
        }
        require(same(write_checked(paths), in));
    }
    return 0;
}
