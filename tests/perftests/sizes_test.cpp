#include "perftests/common/sizes.hpp"

#include <gtest/gtest.h>

namespace ef::perf {
namespace {

std::vector<uint64_t> sizes(std::string_view text) {
    std::string why;
    return parse_sizes(text, why);
}

std::string complaint(std::string_view text) {
    std::string why;
    EXPECT_TRUE(parse_sizes(text, why).empty()) << text;
    return why;
}

TEST(ParseSize, TakesSuffixesAsPowersOf1024) {
    EXPECT_EQ(parse_size("0"), 0u);
    EXPECT_EQ(parse_size("8"), 8u);
    EXPECT_EQ(parse_size("8B"), 8u);
    EXPECT_EQ(parse_size("64K"), 65536u);
    EXPECT_EQ(parse_size("64k"), 65536u);
    EXPECT_EQ(parse_size("3MiB"), 3u << 20);
    EXPECT_EQ(parse_size("2G"), uint64_t(2) << 30);
    EXPECT_EQ(parse_size("1T"), uint64_t(1) << 40);
}

TEST(ParseSize, RefusesWhatIsNoSizeOrDoesNotFit) {
    for (const char* bad : {"", "K", "-1", "+1", "8X", "8KB", "8 K", "1.5M", "8Ki", "0x10",
                            "9223372036854775808", "9007199254740992K", "99999999999999999999"})
        EXPECT_FALSE(parse_size(bad)) << bad;
    EXPECT_EQ(parse_size("9223372036854775807"), uint64_t(INT64_MAX));
}

TEST(ParseSizes, ReadsSingleSizesListsAndRanges) {
    EXPECT_EQ(sizes("64K"), (std::vector<uint64_t>{65536}));
    EXPECT_EQ(sizes("8,1K,0"), (std::vector<uint64_t>{8, 1024, 0}));
    EXPECT_EQ(sizes("8:64"), (std::vector<uint64_t>{8, 16, 32, 64}));
    EXPECT_EQ(sizes("8:100:x4"), (std::vector<uint64_t>{8, 32}));
    EXPECT_EQ(sizes("8:128:*4"), (std::vector<uint64_t>{8, 32, 128}));
    EXPECT_EQ(sizes("0:10:+4"), (std::vector<uint64_t>{0, 4, 8}));
    EXPECT_EQ(sizes("1K:3K:+1K,5"), (std::vector<uint64_t>{1024, 2048, 3072, 5}));
    EXPECT_EQ(sizes("8:256M:x2").size(), 26u);
}

TEST(ParseSizes, StopsARangeAtTheLargestNumber) {
    EXPECT_EQ(sizes("1:9223372036854775807:x2").size(), 63u);
    EXPECT_EQ(sizes("9223372036854775806:9223372036854775807:+1").size(), 2u);
}

TEST(ParseSizes, SaysWhatIsWrongWithAnItem) {
    EXPECT_EQ(complaint("8,9Q"), "size \"9Q\": a size is a number with an optional K, M, G or T");
    EXPECT_NE(complaint("64:8").find("LAST is smaller"), std::string::npos);
    EXPECT_NE(complaint("8:64:2").find("STEP"), std::string::npos);
    EXPECT_NE(complaint("8:64:").find("STEP"), std::string::npos);
    EXPECT_NE(complaint("8:64:x1").find("factor"), std::string::npos);
    EXPECT_NE(complaint("0:64:x2").find("start at 0"), std::string::npos);
    EXPECT_NE(complaint("0:64:+0").find("increment"), std::string::npos);
    EXPECT_NE(complaint("1:2:3:4").find("range"), std::string::npos);
    EXPECT_NE(complaint("0:1G:+1").find("more than"), std::string::npos);
    EXPECT_NE(complaint("8,").find("\"\""), std::string::npos);
}

TEST(FormatSize, IsReadBackAsTheSameNumber) {
    EXPECT_EQ(format_size(1536 << 10), "1536K");
    EXPECT_EQ(format_size(0), "0");
    for (uint64_t n : {uint64_t(0), uint64_t(7), uint64_t(1023), uint64_t(1) << 10,
                       uint64_t(5) << 40, uint64_t(1) << 62, uint64_t(INT64_MAX)})
        EXPECT_EQ(parse_size(format_size(n)), n);
}

}  // namespace
}  // namespace ef::perf
