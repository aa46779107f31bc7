// Cases that text cannot express: many constants, and constants with unusual memory layouts. The others are
// in const_deduplication.sx.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/tensor/tensor_view.h"
#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// For each constant, the index of the one that replaces it.
std::vector<size_t> merged(const std::vector<TensorPtr>& constants) {
  std::string body, results;
  for (size_t i = 0; i < constants.size(); ++i) {
    body += fmt::format(" y{} = relu(x)", i);
    results += fmt::format("{}y{}", i > 0 ? ", " : "", i);
  }
  const auto m = parse(fmt::format("graph mil(x: f32[37,3]) {{{} return {} }}", body, results));
  size_t at = 0;
  for (Node& n : m->graph().nodes()) n.set_input(0, m->graph().add_constant(constants[at++]));
  run_passes(*m, {.passes = {"const_deduplication"}, .strict = true, .verify_graph = true});
  std::vector<const Value*> read;
  for (const Node& n : m->graph().nodes()) read.push_back(n.input(0));
  std::vector<size_t> firsts;
  for (const Value* v : read) firsts.push_back(static_cast<size_t>(std::ranges::find(read, v) - read.begin()));
  return firsts;
}

std::vector<float> counted(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

TEST(ConstDeduplication, ManyThatDifferWhereNobodyLooks) {
  // The sample has 64 of the 111 elements, and not the second to last.
  std::vector<TensorPtr> all;
  for (const float last : {1, 2, 3, 4, 5, 6, 7, 3, 6, 7, 1}) {
    std::vector<float> v(111, 0.5f);
    v[109] = last;
    all.push_back(Tensor::of<float>(DType::kF32, {37, 3}, v));
  }
  EXPECT_EQ(merged(all), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 2, 5, 6, 0}));
}

TEST(ConstDeduplication, ViewsAndCopies) {
  const std::vector<float> rows = counted(111);
  std::vector<float> transposed, other;
  for (size_t i = 0; i < 37; ++i) {
    for (size_t k = 0; k < 3; ++k) transposed.push_back(rows[k * 37 + i]);
  }
  other = transposed;
  other[55] = 0;
  const TensorPtr storage = Tensor::of<float>(DType::kF32, {3, 37}, rows);
  EXPECT_EQ(merged({make_view(storage, {37, 3}, {1, 37}), Tensor::of<float>(DType::kF32, {37, 3}, transposed),
                    Tensor::of<float>(DType::kF32, {37, 3}, other), Tensor::of<float>(DType::kF32, {37, 3}, rows)}),
            (std::vector<size_t>{0, 0, 2, 3}));
}

TEST(ConstDeduplication, OneElementForAll) {
  const TensorPtr one = Tensor::full(DType::kF32, {37, 3}, 0.5), other = Tensor::full(DType::kF32, {37, 3}, 0.25);
  const TensorPtr all = Tensor::of<float>(DType::kF32, {37, 3}, std::vector<float>(111, 0.5f));
  EXPECT_EQ(merged({one, all, other, one}), (std::vector<size_t>{0, 0, 2, 0}));
}

}  // namespace
}  // namespace sardonyx
