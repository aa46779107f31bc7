#include "passes/onnx/quantize/summed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sardonyx::onnx {
namespace {

TensorPtr normal(std::vector<int64_t> shape) {
  int64_t size = 1;
  for (const int64_t d : shape) size *= d;
  std::mt19937 engine(3);
  std::normal_distribution<float> drawn;
  std::vector<float> numbers(static_cast<size_t>(size));
  for (float& x : numbers) x = drawn(engine);
  return Tensor::of<float>(DType::kF32, std::move(shape), numbers);
}

// Of a convolution with 5 results, 7 channels and 3 places.
constexpr Sums kSums{.channels = 5, .outer = 7, .inner = 3, .channel_stride = 21};

double squared_error(const Tensor& w, const WeightCodes& made) {
  double sum = 0;
  for (int64_t i = 0; i < w.size(); ++i) {
    const double scale = static_cast<double>(made.scales[static_cast<size_t>(i / 21)]);
    sum += std::pow(w.as_double(i) - scale * static_cast<double>(made.codes->as_int(i)), 2);
  }
  return sum;
}

// In both orders of summation.
TEST(SummedWeights, NeighborsFitIntoSixteenBits) {
  const TensorPtr w = normal({5, 7, 3});
  const WeightCodes made = encode_summed(*w, kSums, {}, /*full_range=*/false);
  int64_t largest = 0;
  for (int64_t n = 0; n < 5; ++n) {
    for (int64_t i = 1; i < 21; ++i) {
      const auto by_places = [&](int64_t at) { return made.codes->as_int(n * 21 + at); };
      const auto by_channels = [&](int64_t at) { return made.codes->as_int(n * 21 + at % 7 * 3 + at / 7); };
      largest = std::max(largest, std::abs(by_places(i) + by_places(i - 1)));
      largest = std::max(largest, std::abs(by_channels(i) + by_channels(i - 1)));
    }
  }
  EXPECT_EQ(largest, 128);
  const WeightCodes full = encode_summed(*w, kSums, {}, /*full_range=*/true);
  EXPECT_LT(squared_error(*w, full), 0.7 * squared_error(*w, made));
}

// The same weights by rows and by columns have the same codes.
TEST(SummedWeights, Columns) {
  const TensorPtr rows = normal({5, 21});
  std::vector<float> transposed;
  for (int64_t i = 0; i < 105; ++i) transposed.push_back(static_cast<float>(rows->as_double(i % 5 * 21 + i / 5)));
  const TensorPtr columns = Tensor::of<float>(DType::kF32, {21, 5}, transposed);
  const WeightCodes a = encode_summed(*rows, {.channels = 5, .inner = 21, .channel_stride = 21}, {}, false);
  const WeightCodes b =
      encode_summed(*columns, {.channels = 5, .inner = 21, .channel_stride = 1, .inner_stride = 5}, {}, false);
  EXPECT_EQ(a.scales, b.scales);
  for (int64_t i = 0; i < 105; ++i) EXPECT_EQ(b.codes->as_int(i), a.codes->as_int(i % 5 * 21 + i / 5));
}

TEST(SummedWeights, LeastScales) {
  const std::vector<float> least{0, 1, 0, 2, 0};
  const WeightCodes made = encode_summed(*normal({5, 7, 3}), kSums, least, false);
  EXPECT_LT(made.scales[0], 0.1F);
  EXPECT_EQ(made.scales[1], 1);
  EXPECT_EQ(made.scales[3], 2);
}

// Two groups: the first two results have the first seven channels, the others the next ones.
TEST(SummedWeights, LostMeans) {
  const Sums sums{.channels = 4, .outer = 7, .inner = 3, .channel_stride = 21};
  const TensorPtr w = normal({4, 7, 3});
  const WeightCodes made = encode_summed(*w, sums, {}, false);
  std::vector<double> means;
  for (int i = 0; i < 14; ++i) means.push_back(i * i - 3);
  const std::vector<double> lost = lost_of_means(*w, sums, 2, *made.codes, made.scales, means);
  for (int64_t n = 0; n < 4; ++n) {
    double wanted = 0;
    for (int64_t i = 0; i < 21; ++i) {
      const double scale = static_cast<double>(made.scales[static_cast<size_t>(n)]);
      const double off = w->as_double(n * 21 + i) - scale * static_cast<double>(made.codes->as_int(n * 21 + i));
      wanted += off * means[static_cast<size_t>(n / 2 * 7 + i / 3)];
    }
    EXPECT_NEAR(lost[static_cast<size_t>(n)], wanted, 1e-4);
    EXPECT_GT(std::abs(wanted), 1e-3);
  }
}

}  // namespace
}  // namespace sardonyx::onnx
