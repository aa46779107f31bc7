// Which constants half precision cannot represent. add_fp16_cast.sx tests what the pass does with them.
#include "passes/precision/half_masks.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ir/tensor/tensor_transform.h"

namespace sardonyx::precision {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

HalfFit fit_of(const std::vector<float>& v) {
  HalfFits fits;
  return fits.of(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(v.size())}, v));
}

TEST(HalfFits, EveryPlaceCounts) {
  for (const size_t size : {1, 3, 4, 5, 7, 64, 65537}) {
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      std::vector<float> v(size, 65504.0F);
      EXPECT_FALSE(fit_of(v).overflows || fit_of(v).saturates);
      v[place] = -65505.0F;
      EXPECT_TRUE(fit_of(v).overflows && !fit_of(v).saturates) << place << " of " << size;
      v[place] = 1e38F;
      EXPECT_TRUE(!fit_of(v).overflows && fit_of(v).saturates) << place << " of " << size;
      for (const float fine : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        v[place] = fine;
        EXPECT_FALSE(fit_of(v).overflows || fit_of(v).saturates) << fine;
      }
    }
  }
}

TEST(HalfMasks, EachRowShowsSomething) {
  const auto hides = [](const std::vector<float>& v) { return only_hides(*Tensor::of<float>(DType::kF32, {2, 3}, v)); };
  EXPECT_TRUE(hides({-1e9F, -1e9F, 0, 0, 0, -1e9F}));
  EXPECT_TRUE(hides({0, -1e9F, -1e9F, -1e9F, -999, -1e9F}));
  EXPECT_FALSE(hides({-1e9F, -1e9F, -1e9F, 0, 0, 0}));
  EXPECT_FALSE(hides({0, 0, 0, -1e9F, -1001, -1e9F}));
  EXPECT_FALSE(hides({0, 0, 1e5F, 0, 0, 0}));
}

TEST(HalfFits, NumbersWithFewDigits) {
  std::vector<float> v(1009, 6e-5F);
  EXPECT_TRUE(fit_of(v).vanishes);
  v[1008] = -7e-5F;
  EXPECT_FALSE(fit_of(v).vanishes);
  EXPECT_FALSE(fit_of(std::vector<float>(7, 0)).vanishes);
  v[1008] = 1e5F;
  EXPECT_TRUE(fit_of(v).overflows && !fit_of(v).vanishes);
}

TEST(HalfFits, ReadsEachConstantOnceHoweverItIsTransposed) {
  size_t read = 0;
  const TensorPtr counted = Tensor::defer(DType::kF32, {211, 307}, Tensor::Fill([&](int64_t, std::span<std::byte> out) {
                                            std::fill(out.begin(), out.end(), std::byte{0x3f});
                                            read += out.size() / 4;
                                          }));
  HalfFits fits;
  for (int i = 0; i < 3; ++i) (void)fits.of(counted);
  EXPECT_EQ(read, 211u * 307u);
  std::vector<float> large(211 * 307, 1e5F);
  const TensorPtr stored = Tensor::of<float>(DType::kF32, {211, 307}, large);
  EXPECT_TRUE(fits.of(transposed(stored, {1, 0})).overflows);
  EXPECT_TRUE(fits.of(stored).overflows);
}

}  // namespace
}  // namespace sardonyx::precision
