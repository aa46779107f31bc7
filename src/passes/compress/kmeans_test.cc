// Against dynamic programming over all splits.
#include "passes/compress/kmeans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace sardonyx::compress {
namespace {

double cost(std::span<const Bin> bins, size_t first, size_t end) {
  Bin all;
  for (const Bin& b : bins.subspan(first, end - first)) {
    all.count += b.count;
    all.sum += b.sum;
    all.squares += b.squares;
  }
  return all.squares - all.sum * all.sum / all.count;
}

double error_of(std::span<const Bin> bins, std::span<const size_t> firsts) {
  double error = 0;
  for (size_t i = 0; i < firsts.size(); ++i)
    error += cost(bins, firsts[i], i + 1 < firsts.size() ? firsts[i + 1] : bins.size());
  return error;
}

double least_error(std::span<const Bin> bins, size_t most) {
  std::vector<double> before(bins.size() + 1, INFINITY);
  before[0] = 0;
  for (size_t k = 0; k < most; ++k) {
    std::vector<double> next = before;
    for (size_t end = 1; end <= bins.size(); ++end) {
      for (size_t first = 0; first < end; ++first) next[end] = std::min(next[end], before[first] + cost(bins, first, end));
    }
    before = next;
  }
  return before.back();
}

Bin bin_of(double x, double count) { return {count, count * x, count * x * x}; }

TEST(Kmeans, has_the_least_error_of_all_splits) {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> numbers(2 + random() % 59);
    for (double& x : numbers) {
      x = static_cast<double>(random() % 20001) / 10000 - 1;
      if (i % 3 == 1) x = std::pow(x, 5);
    }
    std::ranges::sort(numbers);
    std::vector<Bin> bins;
    for (double x : numbers) bins.push_back(bin_of(x, 1 + static_cast<double>(random() % (i % 2 == 0 ? 1 : 97))));
    for (size_t most : {1, 2, 3, 5, 16, 31}) {
      const std::vector<size_t> firsts = kmeans(bins, most);
      EXPECT_LE(firsts.size(), most);
      EXPECT_TRUE(firsts.front() == 0 && std::ranges::is_sorted(firsts));
      EXPECT_NEAR(error_of(bins, firsts), least_error(bins, most), 1e-9) << numbers.size() << " into " << most;
    }
  }
}

// All numbers of clusters between two cost the same penalty there.
TEST(Kmeans, equal_steps_tie) {
  std::vector<Bin> bins;
  for (int i = 0; i < 64; ++i) bins.push_back(bin_of(i, 3));
  for (size_t most = 1; most < 64; ++most) {
    const std::vector<size_t> firsts = kmeans(bins, most);
    EXPECT_EQ(firsts.size(), most);
    EXPECT_NEAR(error_of(bins, firsts), least_error(bins, most), 1e-9) << most;
  }
}

TEST(Kmeans, few_bins_are_their_own_clusters) {
  const std::vector<Bin> bins = {bin_of(-2, 7), bin_of(0, 1), bin_of(5, 3)};
  EXPECT_EQ(kmeans(bins, 3), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(kmeans(bins, 256), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(kmeans(bins, 2).size(), 2);
}

}  // namespace
}  // namespace sardonyx::compress
