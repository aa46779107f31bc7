// Products with weights of 8 and 4 bits on random numbers of all magnitudes: errors are at most what the
// steps of the scales allow, and what is finite stays finite.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

constexpr int64_t kRows = 5, kTerms = 67, kColumns = 13;
using Floats = std::vector<float>;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  // Standard normal numbers times a power of ten, and now and then one of another magnitude.
  Floats numbers(size_t size) {
    const double scale = std::pow(10, static_cast<double>(random_() % 60) - 40);
    Floats out(size);
    for (float& x : out) {
      const double other = random_() % 40 == 0 ? std::pow(10, static_cast<double>(random_() % 21) - 10) : 1;
      x = static_cast<float>(normal_(random_) * scale * (random_() % 9 == 0 ? 0 : other));
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

EvalValue value(std::vector<int64_t> shape, const Floats& v) { return Tensor::of<float>(DType::kF32, std::move(shape), v); }

// y = x W, as MatMul or as Gemm with the transposed weight.
std::unique_ptr<Model> product(const Floats& w, bool is_gemm) {
  const char* text = is_gemm ? "graph(x: f32[B,67], w: f32[13,67]) { return y = Gemm<transB=1>(x, w) }"
                             : "graph(x: f32[B,67], w: f32[67,13]) { return y = MatMul(x, w) }";
  auto m = parse(text, "product");
  Graph& g = m->graph();
  Floats stored(w.size());
  for (size_t i = 0; i < w.size(); ++i) stored[is_gemm ? i % kColumns * kTerms + i / kColumns : i] = w[i];
  const std::vector<int64_t> shape = is_gemm ? std::vector{kColumns, kTerms} : std::vector{kTerms, kColumns};
  Value* constant = g.add_constant(Tensor::of<float>(DType::kF32, shape, stored), "weight");
  g.replace_uses(*g.input(1), *constant);
  g.remove_input(1);
  return m;
}

void run_pass(Model& m, std::string name, std::vector<std::pair<std::string, std::string>> options) {
  options.emplace_back(name + ".min_elements", "1");
  const auto report = run_passes(m, {.passes = {std::move(name)}, .options = std::move(options), .strict = true});
  ASSERT_TRUE(report.passes.front().changed);
}

Floats run(const Model& m, const Floats& x) {
  const auto rows = static_cast<int64_t>(x.size()) / kTerms;
  const Array y = *evaluate(m.graph(), std::vector<EvalValue>{value({rows, kTerms}, x)})[0].array();
  Floats out;
  for (int64_t i = 0; i < y.size(); ++i) out.push_back(static_cast<float>(y.double_at(i)));
  return out;
}

double magnitude(std::span<const float> v) {
  double most = 0;
  for (const float x : v) most = std::max(most, std::abs(static_cast<double>(x)));
  return most;
}

struct Kind {
  const char* type;
  double steps;  // from zero, or from the least, to the largest number
  size_t block;  // 0: a column
};

class Weights : public ::testing::TestWithParam<Kind> {};

// The squared error of each group is at most that of the scale by its largest magnitude.
TEST_P(Weights, AreWithinTheirSteps) {
  const Kind kind = GetParam();
  Floats ones(kTerms * kTerms, 0);
  for (size_t i = 0; i < kTerms; ++i) ones[i * kTerms + i] = 1;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Floats w = Draw(seed).numbers(kTerms * kColumns);
    auto m = product(w, seed % 2 == 0);
    run_pass(*m, "quantize_weights", {{"quantize_weights.type", kind.type}});
    const Floats found = run(*m, ones);
    for (size_t column = 0; column < kColumns; ++column) {
      const size_t size = kind.block == 0 ? kTerms : kind.block;
      for (size_t first = 0; first < kTerms; first += size) {
        Floats group;
        double off = 0;
        for (size_t k = first; k < std::min<size_t>(first + size, kTerms); ++k) {
          const size_t i = k * kColumns + column;
          group.push_back(w[i]);
          ASSERT_TRUE(std::isfinite(found[i])) << kind.type << ", seed " << seed;
          off += std::pow(static_cast<double>(found[i]) - static_cast<double>(w[i]), 2);
        }
        const double step = magnitude(group) / kind.steps + std::numeric_limits<float>::denorm_min();
        ASSERT_LE(off, 1.0001 * static_cast<double>(group.size()) * step * step / 4)
            << kind.type << ", seed " << seed << ", column " << column;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Weights,
                         ::testing::Values(Kind{"int8", 127, 0}, Kind{"uint8", 127, 0}, Kind{"int4", 7, 32},
                                           Kind{"uint4", 7, 32}),
                         [](const auto& at) { return std::string(at.param.type); });

// Each number is off by at most a step: of x, the 255th part of its range with zero; of a weight, half of the
// 127th part of what two neighbors may add up to. Scales and their products are multiples of the least f32.
TEST(Products, AreWithinTheStepsOfBothSides) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed);
    const Floats w = draw.numbers(kTerms * kColumns), x = draw.numbers(kRows * kTerms);
    const bool is_gemm = seed % 2 == 0;
    const auto before = product(w, is_gemm), after = product(w, is_gemm);
    run_pass(*after, "quantize_products", {});
    const Floats wanted = run(*before, x), found = run(*after, x);
    const auto [low, high] = std::ranges::minmax(x);
    const double of_x = (std::max(static_cast<double>(high), 0.0) - std::min(static_cast<double>(low), 0.0)) / 255;
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        Floats column_of_w;
        for (size_t k = 0; k < kTerms; ++k) column_of_w.push_back(w[k * kColumns + column]);
        const double of_w = magnitude(column_of_w) / 127 + std::numeric_limits<float>::min();
        double most = 0, size = 0;
        for (size_t k = 0; k < kTerms; ++k) {
          const double a = std::abs(static_cast<double>(x[row * kTerms + k])),
                       b = std::abs(static_cast<double>(column_of_w[k]));
          most += a * of_w + b * of_x + of_x * of_w;
          size += a * b;
        }
        const size_t i = row * kColumns + column;
        // The scale of the product is finite where the largest numbers of both sides have a finite product.
        if (255 * of_x * 127 * of_w * kTerms > std::numeric_limits<float>::max()) continue;
        ASSERT_TRUE(std::isfinite(found[i])) << "seed " << seed << ": " << wanted[i];
        const double rounding = 1e-5 * size + 255 * 127 * kTerms * std::numeric_limits<float>::denorm_min();
        ASSERT_LE(std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i])), most + rounding) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx
