// The search against all scales of a fine grid.
#include "passes/compress/least_squares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sardonyx/tensor.h"

namespace sardonyx::compress {
namespace {

int code_of(uint8_t stored, CodeRange range) { return range.is_signed ? static_cast<int8_t>(stored) : stored; }

double squared_error(std::span<const float> numbers, CodeRange range, double scale, int zero) {
  double sum = 0;
  for (float x : numbers) {
    const double code = std::clamp(std::nearbyint(static_cast<double>(x) / scale) + zero, static_cast<double>(range.low()),
                                   static_cast<double>(range.high()));
    sum += std::pow(static_cast<double>(x) - (code - zero) * scale, 2);
  }
  return sum;
}

double least_error(std::span<const float> numbers, CodeRange range) {
  const auto [low, high] = std::ranges::minmax(numbers);
  const double widest = static_cast<double>(std::max(std::abs(low), std::abs(high)));
  double least = INFINITY;
  for (int zero = 0; zero <= (range.is_signed ? 0 : range.high()); ++zero) {
    for (int i = 1; i <= 2000; ++i) {
      const double scale = widest * i / 2000 * 2 / range.high();
      least = std::min(least, squared_error(numbers, range, scale, zero));
      if (range.is_signed && range.bits < 8) least = std::min(least, squared_error(numbers, range, -scale, zero));
    }
  }
  return least;
}

struct Found {
  double error = 0;  // of the codes
  Scaling scaling;
  friend bool operator==(const Found& a, const Found& b) {
    return a.error == b.error && a.scaling.scale == b.scaling.scale && a.scaling.zero == b.scaling.zero;
  }
};

// Fits blocks side by side.
std::vector<Found> fit(std::span<const std::vector<float>> blocks, CodeRange range, DType type = DType::kF32) {
  constexpr size_t kLanes = LeastSquares::kLanes;
  LeastSquares::Lanes<size_t> sizes{};
  size_t most = 0;
  for (size_t l = 0; l < blocks.size(); ++l) most = std::max(most, sizes[l] = blocks[l].size());
  std::vector<float> numbers(most * kLanes);
  for (size_t l = 0; l < blocks.size(); ++l) {
    for (size_t i = 0; i < sizes[l]; ++i) numbers[i * kLanes + l] = blocks[l][i];
  }
  std::vector<uint8_t> codes(numbers.size());
  const auto scalings = LeastSquares(range, type).fit(numbers, sizes, codes);
  std::vector<Found> found(blocks.size());
  for (size_t l = 0; l < blocks.size(); ++l) {
    found[l].scaling = scalings[l];
    for (size_t i = 0; i < sizes[l]; ++i) {
      const double is = (code_of(codes[i * kLanes + l], range) - scalings[l].zero) * scalings[l].scale;
      found[l].error += std::pow(static_cast<double>(blocks[l][i]) - is, 2);
    }
  }
  return found;
}

Found fit(const std::vector<float>& block, CodeRange range, DType type = DType::kF32) {
  return fit(std::span(&block, 1), range, type).front();
}

std::vector<float> random_block(std::mt19937& random, size_t size, bool heavy) {
  std::vector<float> block(size);
  for (float& x : block) {
    x = static_cast<float>(static_cast<int64_t>(random() % 20001) - 10000) / 10000;
    if (heavy) x = x * x * x * x * x;
  }
  return block;
}

TEST(LeastSquares, is_near_the_least_error_of_all_scales) {
  std::mt19937 random(7);
  for (const CodeRange range : {CodeRange{4, true}, CodeRange{4, false}}) {
    double found = 0, least = 0, extremes = 0;
    for (int i = 0; i < 120; ++i) {
      const std::vector<float> block = random_block(random, i % 3 == 0 ? 7 : i % 3 == 1 ? 13 : 32, i % 2 == 0);
      found += fit(block, range).error;
      least += least_error(block, range);
      const auto [low, high] = std::ranges::minmax(block);
      const double width = static_cast<double>(std::max(high, 0.0f) - std::min(low, 0.0f)) / 15;
      extremes += range.is_signed
                      ? squared_error(block, range, static_cast<double>(std::max(-low, high)) / 7, 0)
                      : squared_error(block, range, width, static_cast<int>(std::nearbyint(-std::min(low, 0.0f) / width)));
    }
    EXPECT_LT(found, 1.05 * least) << range.is_signed;
    EXPECT_LT(found, 0.95 * extremes) << range.is_signed;
  }
}

TEST(LeastSquares, a_block_has_the_same_codes_beside_others) {
  std::mt19937 random(5);
  for (const CodeRange range : {CodeRange{8, true}, CodeRange{8, false}, CodeRange{4, true}, CodeRange{4, false}}) {
    std::vector<std::vector<float>> blocks;
    for (size_t size : {32, 32, 7, 1, 32, 0, 13, 32}) blocks.push_back(random_block(random, size, size == 13));
    blocks[4] = std::vector<float>(32, -0.3f);
    const std::vector<Found> beside = fit(blocks, range);
    for (size_t l = 0; l < blocks.size(); ++l) EXPECT_EQ(beside[l], fit(blocks[l], range)) << l;
  }
}

TEST(LeastSquares, repeated_numbers_are_exact) {
  for (const CodeRange range : {CodeRange{8, true}, CodeRange{8, false}, CodeRange{4, true}, CodeRange{4, false}}) {
    for (float x : {0.0f, -0.0f, 0.1f, -0.1f, 1e-45f, -3e38f}) {
      const std::vector<float> block(13, x);
      EXPECT_EQ(fit(block, range).error, 0) << x << " in " << range.bits << " bits";
      EXPECT_GT(fit(block, range).scaling.scale, 0);
    }
  }
}

TEST(LeastSquares, numbers_on_a_grid_of_three_are_exact) {
  for (const CodeRange range : {CodeRange{8, true}, CodeRange{4, true}}) {
    EXPECT_EQ(fit(std::vector<float>{0.1f, -0.1f, 0, 0.1f, 0}, range).error, 0);
  }
}

TEST(LeastSquares, the_smallest_and_the_largest_numbers_stay_finite) {
  for (const CodeRange range : {CodeRange{8, true}, CodeRange{8, false}, CodeRange{4, true}, CodeRange{4, false}}) {
    for (float x : {3.4e38f, 1e-30f, 1e-44f}) {
      const std::vector<float> block{x, -x, x / 3, 0, x / 7};
      const Found found = fit(block, range);
      EXPECT_TRUE(std::isfinite(found.scaling.scale)) << x;
      EXPECT_NE(found.scaling.scale, 0) << x;
      EXPECT_LE(found.error, 5.0 * static_cast<double>(x) * static_cast<double>(x)) << x;
    }
  }
}

TEST(LeastSquares, scales_are_numbers_of_the_type) {
  std::mt19937 random(11);
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (int i = 0; i < 20; ++i) {
      std::byte bytes[4] = {};
      const double scale = fit(random_block(random, 32, true), {4, true}, type).scaling.scale;
      encode_element(type, bytes, 0, scale);
      EXPECT_EQ(decode_element(type, bytes, 0), scale);
    }
  }
}

TEST(LeastSquares, few_codes_reach_the_largest_number_whatever_its_sign) {
  const std::vector<float> block{8, -7, 6, -5, 4, -3, 2, -1, 0};
  EXPECT_EQ(fit(block, {4, true}).error, 0);
  std::vector<float> other;
  for (float x : block) other.push_back(-x);
  EXPECT_EQ(fit(other, {4, true}).error, 0);
}

TEST(LeastSquares, errors_that_count_more_become_smaller) {
  std::mt19937 random(17);
  constexpr size_t kLanes = LeastSquares::kLanes, kSize = 32;
  for (const CodeRange range : {CodeRange{4, true}, CodeRange{4, false}, CodeRange{8, true}, CodeRange{8, false}}) {
    double with = 0, without = 0;
    for (int i = 0; i < 40; ++i) {
      const std::vector<float> block = random_block(random, kSize, range.is_signed);
      std::vector<float> importance(kSize), numbers(kSize * kLanes);
      for (float& x : importance) x = std::exp(static_cast<float>(random() % 600) / 100 - 3);
      for (size_t k = 0; k < kSize; ++k)
        std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(k * kLanes), kLanes, block[k]);
      std::vector<uint8_t> codes(numbers.size());
      LeastSquares::Lanes<size_t> sizes;
      sizes.fill(kSize);
      const auto error = [&](std::span<const float> counts) {
        const Scaling s = LeastSquares(range, DType::kF32).fit(numbers, sizes, codes, counts)[0];
        double sum = 0;
        for (size_t k = 0; k < kSize; ++k) {
          const double x = s.scale * (code_of(codes[k * kLanes], range) - s.zero);
          sum += static_cast<double>(importance[k]) * std::pow(static_cast<double>(block[k]) - x, 2);
        }
        return sum;
      };
      with += error(importance);
      without += error({});
    }
    EXPECT_LT(with, 0.9 * without) << range.bits << range.is_signed;
  }
}

}  // namespace
}  // namespace sardonyx::compress
