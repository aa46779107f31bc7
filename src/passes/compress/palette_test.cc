// Tables against those of all numbers, each its own bin.
#include "passes/compress/palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "passes/compress/kmeans.h"

namespace sardonyx::compress {
namespace {

TensorPtr tensor(DType type, std::vector<int64_t> shape, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(byte_size(type, numbers.size()));
  for (size_t i = 0; i < numbers.size(); ++i) encode_element(type, bytes.data(), static_cast<int64_t>(i), numbers[i]);
  return Tensor::own(type, std::move(shape), std::move(bytes));
}

std::vector<double> draw(size_t count, double scale) {
  std::mt19937 random(3);
  std::vector<double> numbers(count);
  for (double& x : numbers) x = std::pow(static_cast<double>(random() % 20001) / 10000 - 1, 3) * scale;
  return numbers;
}

double error_of(const Tensor& t, const Palettes& p) {
  double error = 0;
  for (int64_t i = 0; i < t.size(); ++i)
    error += std::pow(t.as_double(i) - p.tables->as_double(static_cast<int64_t>(p.indices[static_cast<size_t>(i)])), 2);
  return error;
}

double least_error(const Tensor& t, size_t entries) {
  std::vector<double> sorted;
  for (int64_t i = 0; i < t.size(); ++i) sorted.push_back(t.as_double(i));
  std::ranges::sort(sorted);
  std::vector<Bin> bins;
  for (double x : sorted) bins.push_back({1, x, x * x});
  std::vector<size_t> firsts = kmeans(bins, entries);
  firsts.push_back(bins.size());
  double error = 0;
  for (size_t c = 0; c + 1 < firsts.size(); ++c) {
    double mean = 0;
    for (size_t i = firsts[c]; i < firsts[c + 1]; ++i) mean += sorted[i] / static_cast<double>(firsts[c + 1] - firsts[c]);
    for (size_t i = firsts[c]; i < firsts[c + 1]; ++i) error += std::pow(sorted[i] - mean, 2);
  }
  return error;
}

TEST(Palette, has_nearly_the_least_error_at_any_magnitude) {
  for (DType type : {DType::kF32, DType::kF16}) {
    for (double scale : type == DType::kF32 ? std::vector<double>{1, 1e-30, 3e37} : std::vector<double>{1, 60000}) {
      for (size_t entries : {2, 16, 64}) {
        const TensorPtr t = tensor(type, {31, 67}, draw(31 * 67, scale));
        const auto found = palettes(*t, Grouping(t->shape(), {31, 67}), entries);
        ASSERT_TRUE(found);
        EXPECT_LT(error_of(*t, *found), 1.001 * least_error(*t, entries)) << to_string(type) << " " << scale << " " << entries;
      }
    }
  }
}

TEST(Palette, few_numbers_are_exact) {
  for (DType type : {DType::kF32, DType::kF16}) {
    const TensorPtr t = tensor(type, {2, 3}, {0.1, -0.3, 0.1, 0, 0.7, -0.0});
    const auto found = palettes(*t, Grouping(t->shape(), {2, 3}), 4);
    ASSERT_TRUE(found);
    EXPECT_EQ(error_of(*t, *found), 0) << to_string(type);
  }
}

TEST(Palette, groups_have_tables_of_their_own) {
  const TensorPtr t = tensor(DType::kF32, {2, 3, 1}, {1, 10, 100, 2, 20, 200});
  const auto found = palettes(*t, Grouping(t->shape(), {2, 1, 1}), 2);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->tables->size(), 6);
  for (int64_t i = 0; i < 6; ++i) {
    const int64_t group = i % 3;
    EXPECT_EQ(found->tables->as_double(2 * group + static_cast<int64_t>(found->indices[static_cast<size_t>(i)])),
              t->as_double(i));
  }
}

TEST(Palette, none_for_numbers_that_are_not_finite) {
  for (DType type : {DType::kF32, DType::kF16}) {
    for (const float x : {INFINITY, -INFINITY, NAN}) {
      const TensorPtr t = tensor(type, {3}, {1, static_cast<double>(x), 2});
      EXPECT_FALSE(palettes(*t, Grouping(t->shape(), {3}), 2)) << x;
    }
  }
}

}  // namespace
}  // namespace sardonyx::compress
