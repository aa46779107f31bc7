// Codes that learn from inputs, beside codes of the weights alone.
#include "passes/compress/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

namespace sardonyx::compress {
namespace {

constexpr int64_t kRows = 149, kChannels = 23, kVectors = 307;

struct Case {
  DType type = DType::kI4;
  int64_t block = 32;  // rows; 0: all
  bool channels_first = false;
  DType floats = DType::kF32;
};

// The same numbers with every standard library, whose distributions differ: Box and Muller's transform.
std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&] { return (random() + 0.5) / 0x1p32; };
  std::vector<float> numbers(count);
  for (float& x : numbers) {
    const double radius = std::sqrt(-2 * std::log(draw()));
    x = static_cast<float>(radius * std::cos(2 * std::numbers::pi * draw()));
  }
  return numbers;
}

// Vectors of which few numbers are free: the others follow them.
std::vector<float> dependent(int64_t count, uint32_t seed) {
  constexpr size_t kFree = 17;
  const std::vector<float> mixed = normal(kFree * kRows, 5), noise = normal(static_cast<size_t>(count * kRows), seed),
                           free = normal(static_cast<size_t>(count) * kFree, seed + 1);
  std::vector<float> x;
  for (size_t i = 0; i < noise.size(); ++i) {
    float sum = 0.1F * noise[i];
    for (size_t f = 0; f < kFree; ++f) sum += free[i / kRows * kFree + f] * mixed[f * kRows + i % kRows];
    x.push_back(sum);
  }
  return x;
}

class Weight {
 public:
  explicit Weight(Case c)
      : c_(c),
        shape_(c.channels_first ? std::vector{kChannels, kRows} : std::vector{kRows, kChannels}),
        t_(tensor(c, shape_)),
        grouping_(shape_, extents()) {}

  std::optional<Codes> encode(const Moments* moments) const {
    std::vector<int64_t> scales = c_.block > 0 ? grouping_.counts() : std::vector{kChannels};
    return compress::encode(*t_, grouping_, c_.type, scales, {moments, c_.channels_first ? 0U : 1U});
  }

  // The squared error of products, as a share of their squares.
  double error(const Codes& made, const std::vector<float>& x) const {
    double error = 0, whole = 0;
    for (size_t v = 0; v * kRows < x.size(); ++v) {
      for (int64_t c = 0; c < kChannels; ++c) {
        double sum = 0, exact = 0;
        for (int64_t row = 0; row < kRows; ++row) {
          const int64_t at = c_.channels_first ? c * kRows + row : row * kChannels + c;
          const double input = static_cast<double>(x[v * kRows + static_cast<size_t>(row)]);
          exact += input * t_->as_double(at);
          sum += input * number(made, at, row, c);
        }
        error += (sum - exact) * (sum - exact);
        whole += exact * exact;
      }
    }
    return error / whole;
  }

 private:
  static TensorPtr tensor(Case c, const std::vector<int64_t>& shape) {
    const std::vector<float> numbers = normal(kRows * kChannels, 3);
    std::vector<std::byte> bytes(byte_size(c.floats, numbers.size()));
    for (size_t i = 0; i < numbers.size(); ++i)
      encode_element(c.floats, bytes.data(), static_cast<int64_t>(i), static_cast<double>(numbers[i]));
    return Tensor::own(c.floats, shape, std::move(bytes));
  }
  std::vector<int64_t> extents() const {
    const int64_t rows = c_.block > 0 ? c_.block : kRows;
    return c_.channels_first ? std::vector<int64_t>{1, rows} : std::vector<int64_t>{rows, 1};
  }
  double number(const Codes& made, int64_t at, int64_t row, int64_t c) const {
    const int64_t block = c_.block > 0 ? row / c_.block : 0, blocks = c_.block > 0 ? (kRows - 1) / c_.block + 1 : 1;
    const int64_t group = c_.channels_first ? c * blocks + block : block * kChannels + c;
    const double zero = made.zeros != nullptr ? made.zeros->as_double(group) : 0;
    return (made.codes->as_double(at) - zero) * made.scales->as_double(group);
  }

  Case c_;
  std::vector<int64_t> shape_;
  TensorPtr t_;
  Grouping grouping_;
};

Moments moments_of(const std::vector<float>& x) {
  Moments moments(kRows);
  moments.add(x);
  return moments;
}

bool same(const Codes& a, const Codes& b) {
  const auto equal = [](const TensorPtr& x, const TensorPtr& y) {
    if (x == nullptr || y == nullptr) return x == y;
    for (int64_t i = 0; i < x->size(); ++i) {
      if (x->as_double(i) != y->as_double(i)) return false;
    }
    return true;
  };
  return equal(a.codes, b.codes) && equal(a.scales, b.scales) && equal(a.zeros, b.zeros);
}

TEST(ErrorFeedback, dependent_inputs_leave_a_third_of_the_error_on_other_inputs) {
  const Moments moments = moments_of(dependent(kVectors, 11));
  const std::vector<float> unseen = dependent(101, 13);
  for (const Case c : {Case{}, Case{DType::kI4, 32, true}, Case{DType::kU4, 32}, Case{DType::kU4, 16, true},
                       Case{DType::kI8, 0}, Case{DType::kU8, 0, true}, Case{DType::kI4, 0},
                       Case{DType::kI4, 32, false, DType::kF16}, Case{DType::kU4, 128, true, DType::kBF16}}) {
    const Weight w(c);
    const auto alone = w.encode(nullptr), learned = w.encode(&moments);
    ASSERT_TRUE(alone && learned);
    EXPECT_LT(w.error(*learned, unseen), 0.33 * w.error(*alone, unseen)) << to_string(c.type) << " " << c.block;
  }
}

TEST(ErrorFeedback, inputs_that_say_nothing_change_nothing) {
  const Weight w({});
  const auto alone = w.encode(nullptr);
  const std::vector<float> zeros(kRows * 3), nan(kRows * 3, NAN);
  std::vector<float> huge(kRows, 3e38F);
  for (const auto& x : {zeros, nan, huge}) {
    const Moments moments = moments_of(x);
    EXPECT_FALSE(moments.are_known());
    EXPECT_TRUE(same(*alone, *w.encode(&moments)));
  }
}

// Few independent vectors look dependent by chance: what they seem to say must not count.
TEST(ErrorFeedback, independent_inputs_do_no_harm) {
  for (int64_t count : {1, 7, 61, 307}) {
    const Moments moments = moments_of(normal(static_cast<size_t>(count * kRows), 17));
    const std::vector<float> unseen = normal(101 * kRows, 19);
    const Weight w({});
    EXPECT_LT(w.error(*w.encode(&moments), unseen), 1.1 * w.error(*w.encode(nullptr), unseen)) << count;
  }
}

TEST(ErrorFeedback, large_inputs_choose_the_scales) {
  const auto sized = [](int64_t count, uint32_t seed) {
    std::vector<float> x = normal(static_cast<size_t>(count * kRows), seed);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= std::exp(static_cast<float>(i % kRows * 37 % kRows) / 20);
    return x;
  };
  const Moments moments = moments_of(sized(kVectors, 11));
  const std::vector<float> unseen = sized(101, 13);
  for (const Case c : {Case{}, Case{DType::kU4, 0, true}}) {
    const Weight w(c);
    EXPECT_LT(w.error(*w.encode(&moments), unseen), 0.75 * w.error(*w.encode(nullptr), unseen)) << to_string(c.type);
  }
}

TEST(ErrorFeedback, inputs_that_were_zero_keep_weights_that_are_near) {
  std::vector<float> x = dependent(kVectors, 11);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % kRows % 2 == 0) x[i] = 0;
  }
  const Moments moments = moments_of(x);
  const Weight w({});
  const std::vector<float> all = normal(101 * kRows, 19);
  EXPECT_LT(w.error(*w.encode(&moments), all), 3 * w.error(*w.encode(nullptr), all));
  EXPECT_LT(w.error(*w.encode(&moments), x), 0.5 * w.error(*w.encode(nullptr), x));
}

TEST(ErrorFeedback, vectors_that_are_not_finite_do_not_count) {
  std::vector<float> x = dependent(kVectors, 11);
  const Moments before = moments_of(x);
  std::vector<float> bad(kRows, 1);
  bad[7] = INFINITY;
  x.insert(x.begin(), bad.begin(), bad.end());
  bad[7] = NAN;
  x.insert(x.end() - kRows, bad.begin(), bad.end());
  EXPECT_EQ(moments_of(x).shrunk(), before.shrunk());
}

TEST(ErrorFeedback, users_of_a_weight_add_up) {
  const std::vector<float> a = dependent(61, 11), b = dependent(101, 13);
  Moments sum = moments_of(a);
  sum.add(moments_of(b));
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const auto one = sum.shrunk(), other = moments_of(both).shrunk();
  for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], other[i], 1e-4 * std::abs(other[0]));
}

}  // namespace
}  // namespace sardonyx::compress
