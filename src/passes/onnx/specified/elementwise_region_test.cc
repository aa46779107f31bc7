// Covers permutations that no checked node has. Passes meet them if the rank of an operand is not known.
#include "passes/onnx/specified/elementwise_region.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sardonyx::onnx {
namespace {

using Perm = std::vector<int64_t>;

// The permutation of a Transpose whose operand has this type.
std::optional<Perm> of(const std::string& type, const Perm& perm) {
  const auto m = parse(fmt::format("graph(x: {}) {{ y = Transpose<perm=[{}]>(x)  return y }}", type, fmt::join(perm, ", ")));
  return permutation(*m->graph().first());
}

Perm axes(int64_t count) {
  Perm perm;
  for (int64_t i = count; i-- > 0;) perm.push_back(i);
  return perm;
}

TEST(ElementwiseRegion, permutations_name_each_axis_once) {
  EXPECT_EQ(of("f32[...]", {2, 0, 1}), (Perm{2, 0, 1}));
  EXPECT_EQ(of("f32[...]", {2, 0, 2}), std::nullopt);
  EXPECT_EQ(of("f32[...]", {0, 0}), std::nullopt);
  EXPECT_EQ(of("f32[...]", {0, -1}), std::nullopt);
  EXPECT_EQ(of("f32[...]", {0, 2}), std::nullopt);
}

TEST(ElementwiseRegion, permutations_fit_the_operand) {
  EXPECT_EQ(of("f32[2,3,5]", {2, 0, 1}), (Perm{2, 0, 1}));
  EXPECT_EQ(of("f32[2,3]", {2, 0, 1}), std::nullopt);
}

TEST(ElementwiseRegion, permutations_of_many_axes) {
  EXPECT_EQ(of("f32[...]", axes(64)), axes(64));
  EXPECT_EQ(of("f32[...]", axes(65)), std::nullopt);
  Perm twice = axes(64);
  twice[5] = 0;
  EXPECT_EQ(of("f32[...]", twice), std::nullopt);
}

}  // namespace
}  // namespace sardonyx::onnx
