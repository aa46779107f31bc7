#include "passes/compress/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sardonyx::compress {
namespace {

TensorPtr weights(DType type, float first) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw;
  std::vector<std::byte> bytes(byte_size(type, 61 * 37));
  for (int64_t i = 0; i < 61 * 37; ++i)
    encode_element(type, bytes.data(), i, static_cast<double>(i == 0 ? first : draw(random)));
  return Tensor::own(type, {61, 37}, std::move(bytes));
}

void expect_equal(const TensorPtr& a, const TensorPtr& b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  EXPECT_TRUE(a == nullptr || a->equals(*b));
}

// Whatever is read first, and however often.
TEST(Encode, parts_computed_when_they_are_read_are_the_same) {
  for (const DType floats : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType type : {DType::kI4, DType::kU4, DType::kI8, DType::kU8}) {
      const TensorPtr t = weights(floats, 0);
      const Grouping grouping(t->shape(), {32, 1});
      const auto made = encode(*t, grouping, type, grouping.counts()),
                 postponed = encode_when_read(t, grouping, type, grouping.counts());
      ASSERT_TRUE(made && postponed && postponed->codes->is_deferred());
      for (int i = 0; i < 2; ++i) {
        expect_equal(made->codes, postponed->codes);
        expect_equal(made->scales, postponed->scales);
        expect_equal(made->zeros, postponed->zeros);
      }
      expect_equal(made->scales, postponed->scales);
      expect_equal(made->codes, postponed->codes);
    }
  }
}

// Weights that are stored, repeated, or computed as a whole when they are read.
TEST(Encode, weights_in_half_the_bytes) {
  const TensorPtr stored = weights(DType::kF32, 0.3F), repeated = Tensor::full(DType::kF32, {61, 37}, 0.3);
  const TensorPtr computed = Tensor::defer(DType::kF32, {61, 37}, [stored] {
    std::vector<std::byte> scratch;
    const auto bytes = stored->bytes(scratch);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  for (const DType to : {DType::kF16, DType::kBF16}) {
    for (const TensorPtr& t : {stored, repeated, computed}) {
      std::vector<std::byte> expected(t->byte_size() / 2);
      for (int64_t i = 0; i < t->size(); ++i) encode_element(to, expected.data(), i, t->as_double(i));
      const TensorPtr made = rounded(t, to);
      ASSERT_NE(made, nullptr);
      EXPECT_TRUE(made->equals(*Tensor::own(to, {61, 37}, std::move(expected))));
    }
  }
  EXPECT_EQ(rounded(weights(DType::kF32, 65520), DType::kF16), nullptr);
  EXPECT_NE(rounded(weights(DType::kF32, 65519), DType::kF16), nullptr);
  EXPECT_EQ(rounded(weights(DType::kF32, 0x1.FFp127F), DType::kBF16), nullptr);
  EXPECT_NE(rounded(weights(DType::kF32, 0x1.FEFFFEp127F), DType::kBF16), nullptr);
}

TEST(Encode, infinite_and_nan_weights_have_no_codes) {
  for (const float x : {INFINITY, -INFINITY, NAN}) {
    const TensorPtr t = weights(DType::kF32, x);
    const Grouping grouping(t->shape(), {32, 1});
    EXPECT_FALSE(encode(*t, grouping, DType::kI4, grouping.counts()));
    EXPECT_FALSE(encode_when_read(t, grouping, DType::kI4, grouping.counts()));
  }
}

}  // namespace
}  // namespace sardonyx::compress
