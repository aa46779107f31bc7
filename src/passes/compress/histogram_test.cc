#include "passes/compress/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace sardonyx::compress {
namespace {

std::vector<float> normal(size_t count, float scale, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> drawn(0, scale);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = drawn(engine);
  return numbers;
}

double error(const std::vector<float>& numbers, Range range, int steps) {
  const double step = range.width() / steps;
  double sum = 0;
  for (float x : numbers) {
    const double clipped = std::min(std::max(static_cast<double>(x), range.low), range.high);
    const double off = clipped - std::nearbyint(clipped / step) * step, cut = static_cast<double>(x) - clipped;
    sum += off * off + 3 * cut * cut;
  }
  return sum;
}

// The range is about as good as the best of a search over the numbers themselves.
TEST(Histogram, LeastSquares) {
  const std::vector<float> numbers = normal(1000003, 1, 3);
  Histogram h;
  h.add(numbers);
  const Range found = h.least_squares(255);
  double best = error(numbers, h.widest(), 255);
  for (double part = 1; part > 0.5; part -= 0.03)
    best = std::min(best, error(numbers, {h.widest().low * part, h.widest().high * part}, 255));
  EXPECT_LT(error(numbers, found, 255), 1.02 * best);
  EXPECT_GT(error(numbers, h.widest(), 255), 1.2 * best);
  EXPECT_LT(found.high, 0.9 * h.widest().high);
}

// Few numbers that codes hold exactly stay exact, and zeros cost nothing wherever the range ends.
TEST(Histogram, ExactNumbers) {
  Histogram h;
  h.add(std::vector<float>{0, 255, 255, 0, 255});
  EXPECT_EQ(h.least_squares(255).low, 0);
  EXPECT_EQ(h.least_squares(255).high, 255);
  Histogram zeros;
  zeros.add(std::vector<float>(5));
  EXPECT_EQ(zeros.size(), 5U);
  EXPECT_EQ(zeros.least_squares(255).width(), 0);
}

// The order of the numbers, and whether histograms are added, changes nothing but how wide the bins are.
TEST(Histogram, Sums) {
  const std::vector<float> a = normal(5003, 0.01F, 5), b = normal(5003, 70, 7);
  Histogram one, two, both;
  one.add(a);
  two.add(b);
  two.add(one);
  both.add(b);
  both.add(a);
  one.add(b);
  for (const Histogram* h : {&one, &two}) {
    EXPECT_EQ(h->widest().high, both.widest().high);
    EXPECT_NEAR(h->least_squares(255).high, both.least_squares(255).high, 0.04 * both.widest().high);
    EXPECT_NEAR(h->without(0.01).low, both.without(0.01).low, 0.01 * both.widest().width());
  }
}

TEST(Histogram, WithoutTheEnds) {
  std::vector<float> numbers;
  for (int i = 1; i <= 1000; ++i) numbers.push_back(static_cast<float>(i));
  Histogram h;
  h.add(numbers);
  EXPECT_EQ(h.without(0).high, 1000);
  EXPECT_NEAR(h.without(0.1).high, 950, 2);
  EXPECT_EQ(h.without(0.1).low, 0);
}

TEST(Histogram, NumbersThatAreNotFinite) {
  for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Histogram h;
    h.add(std::vector<float>{1, x, 2});
    EXPECT_FALSE(h.is_finite());
    EXPECT_EQ(h.size(), 3U);
  }
}

}  // namespace
}  // namespace sardonyx::compress
