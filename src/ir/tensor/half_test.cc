#include "ir/tensor/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ir/tensor/tensor_view.h"

namespace sardonyx {
namespace {

std::vector<std::byte> one_by_one(const std::vector<float>& v) {
  std::vector<std::byte> out(v.size() * 2);
  for (size_t i = 0; i < v.size(); ++i) encode_element(DType::kF16, out.data(), static_cast<int64_t>(i), v[i]);
  return out;
}

std::vector<std::byte> at_once(const std::vector<float>& v) {
  std::vector<std::byte> out(v.size() * 2);
  floats_to_halves(reinterpret_cast<const std::byte*>(v.data()), out.data(), v.size());
  return out;
}

// Each half, the midpoint to the next one, and the neighbors of both.
TEST(Half, RoundsAsOneElementDoes) {
  std::vector<float> all;
  for (uint32_t h = 0; h <= 0xffff; ++h) {
    std::byte code[2];
    const auto half = static_cast<uint16_t>(h);
    std::memcpy(code, &half, 2);
    const auto exact = std::bit_cast<uint32_t>(static_cast<float>(decode_element(DType::kF16, code, 0)));
    for (uint32_t off : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      all.push_back(std::bit_cast<float>(exact + off));
      all.push_back(std::bit_cast<float>(exact - off));
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) all.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  EXPECT_TRUE(at_once(all) == one_by_one(all));
}

TEST(Half, EveryHalfIsAFloat) {
  std::vector<uint16_t> codes(0x10000);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(codes.size());
  halves_to_floats(reinterpret_cast<const std::byte*>(codes.data()), reinterpret_cast<std::byte*>(floats.data()), codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto expected = static_cast<float>(
        decode_element(DType::kF16, reinterpret_cast<const std::byte*>(codes.data()), static_cast<int64_t>(i)));
    if (std::isnan(expected)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), (i & 0x8000) << 16 | 0x7f800000 | (i & 0x3ff) << 13);
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST(Half, AnyCountAndPlace) {
  const std::vector<float> all{1, -2, 3e-6F, 70000, -0.0F, 65519, 65520, 1e-9F, 0.1F, -0.3F, 5};
  for (size_t count = 0; count <= all.size(); ++count) {
    std::vector<std::byte> in(all.size() * 4 + 1), out(all.size() * 2 + 1, std::byte{0x5a});
    std::memcpy(in.data() + 1, all.data(), count * 4);
    floats_to_halves(in.data() + 1, out.data() + 1, count);
    const auto expected = one_by_one({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)});
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + 1)) << count;
    for (size_t i = 1 + count * 2; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0x5a}) << "written beyond " << count;
  }
}

TEST(Half, TensorsReadInPieces) {
  std::vector<float> values(331 * 1009);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37F - 1000;
  const TensorPtr stored = Tensor::of<float>(DType::kF32, {331, 1009}, values);
  const std::vector<int64_t> perm{1, 0};
  for (const TensorPtr& t : {stored, transposed_view(stored, perm)}) {
    const TensorPtr half = as_half(t);
    ASSERT_NE(half, nullptr);
    EXPECT_TRUE(half->reads_in_pieces() && half->dtype() == DType::kF16);
    EXPECT_TRUE(std::ranges::equal(half->shape(), t->shape()));
    std::vector<std::byte> scratch, floats, piece(2 * 401);
    const auto all = half->bytes(scratch);
    std::vector<float> plain(values.size());
    const auto bytes = t->bytes(floats);
    std::memcpy(plain.data(), bytes.data(), bytes.size());
    const auto expected = one_by_one(plain);
    EXPECT_TRUE(std::ranges::equal(all, expected));
    const TensorPtr back = as_half(as_single(half));
    EXPECT_TRUE(back->reads_in_pieces() && back->equals(*half));
    EXPECT_EQ(cast_source(half), t);
    half->read(90011, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + 2 * 90011));
  }
}

TEST(Half, WhatWasRoundedBeforeIsNotRoundedAgain) {
  const TensorPtr single = Tensor::of<float>(DType::kF32, {3}, std::vector<float>{0.1F, 1e6F, -2});
  const TensorPtr half = as_half(single);
  EXPECT_EQ(as_half(as_single(half)), half);
  // A file may hold NaN whose bits rounding would change.
  const TensorPtr read = Tensor::of<uint16_t>(DType::kF16, {2}, std::vector<uint16_t>{0x7c01, 0x3c00});
  const TensorPtr again = as_half(as_single(read));
  EXPECT_NE(again, read);
  EXPECT_TRUE(again->equals(*Tensor::of<uint16_t>(DType::kF16, {2}, std::vector<uint16_t>{0x7e00, 0x3c00})));
}

TEST(Half, WhatIsNoSequenceOfBytes) {
  const TensorPtr splat = as_half(Tensor::full(DType::kF32, {3, 5}, 0.1));
  ASSERT_TRUE(splat != nullptr && splat->is_splat());
  EXPECT_TRUE(splat->equals(*Tensor::full(DType::kF16, {3, 5}, 0.1)));
  EXPECT_EQ(as_half(Tensor::defer(DType::kF32, {2}, [] { return std::vector<std::byte>(8); })), nullptr)
      << "computed as a whole";
}

}  // namespace
}  // namespace sardonyx
