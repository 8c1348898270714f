// The rule that says which byte of a message travels on which connection.
#include "transport/tcp/tcp_wire.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace ef::tcp {
namespace {

TEST(TcpWire, PutsEachByteOnTheConnectionOfItsStripeInOrder) {
    const std::vector<size_t> lengths = {
        1,      striped_from - 1, striped_from,         striped_from + 1,
        200000, 5 * stripe_bytes, 5 * stripe_bytes + 17};
    for (size_t lanes = 1; lanes <= 5; ++lanes)
        for (uint64_t seq : {0, 1, 2, 7})
            for (size_t bytes : lengths) {
                // Dull: walk through the message and deal the bytes out.
                std::vector<std::vector<size_t>> expected(lanes);
                for (size_t b = 0; b < bytes; ++b) {
                    const bool apart = lanes > 1 && bytes >= striped_from;
                    expected[apart ? (seq + b / stripe_bytes) % lanes : 0].push_back(b);
                }
                for (size_t k = 0; k < lanes; ++k) {
                    const part p = part_of(seq, bytes, k, lanes);
                    ASSERT_EQ(p.bytes, expected[k].size())
                        << bytes << " bytes, seq " << seq << ", lane " << k << " of " << lanes;
                    for (size_t at = 0; at < p.bytes;) {
                        const size_t n = p.run(at);
                        ASSERT_GT(n, 0u);
                        for (size_t i : {size_t(0), n / 2, n - 1})
                            ASSERT_EQ(p.offset(at) + i, expected[k][at + i]);
                        at += n;
                        ASSERT_LE(at, p.bytes);
                    }
                }
            }
}

TEST(TcpWire, GivesAnEmptyMessageNoPayloadAnywhere) {
    for (size_t lanes = 1; lanes <= 3; ++lanes)
        for (size_t k = 0; k < lanes; ++k) EXPECT_EQ(part_of(1, 0, k, lanes).bytes, 0u);
}

TEST(TcpWire, WritesHeadersLittleEndian) {
    header h;
    h.magic = wire_magic;
    h.version = 1;
    h.seq = 0x01020304;
    h.tag = 5;
    h.bytes = 0x0102;
    const unsigned char expected[24] = {0x45, 0x46, 1, 0, 4, 3, 2, 1, 5, 0, 0, 0,
                                        0,    0,    0, 0, 2, 1, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(memcmp(&h, expected, sizeof h), 0);
}

}  // namespace
}  // namespace ef::tcp
