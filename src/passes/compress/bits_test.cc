#include "passes/compress/bits.h"

#include <gtest/gtest.h>

namespace sardonyx::compress {
namespace {

TEST(Bits, first_codes_are_in_the_low_bits) {
  for (int bits : {1, 2, 3, 4, 6, 8}) {
    for (size_t count : {0, 1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 61}) {
      std::vector<std::byte> codes(count);
      for (size_t i = 0; i < count; ++i) codes[i] = static_cast<std::byte>(i * 37 + 11);
      const std::vector<std::byte> made = packed(codes, bits);
      ASSERT_EQ(made.size(), (count * static_cast<size_t>(bits) + 7) / 8);
      for (size_t bit = 0; bit < 8 * made.size(); ++bit) {
        const size_t i = bit / static_cast<size_t>(bits);
        const unsigned want = i < count ? static_cast<unsigned>(codes[i]) >> (bit % static_cast<size_t>(bits)) & 1 : 0;
        EXPECT_EQ(static_cast<unsigned>(made[bit / 8]) >> (bit % 8) & 1, want) << count << " of " << bits << " bits, " << bit;
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx::compress
