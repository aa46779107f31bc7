// Covers budgets, names of large constants, and weights of which only the hash is known.
#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// The number of nodes left when folding may add `budget` bytes.
size_t nodes_with(std::string_view text, int64_t budget) {
  const auto m = parse(text);
  PassRequest request{.passes = {"fold_constants"}, .strict = true, .verify_graph = true};
  request.fold_budget = budget;
  run_passes(*m, request);
  return m->graph().num_nodes();
}

TEST(FoldConstants, adds_what_the_budget_allows) {
  // Both results are copies of w, which stays: 244 and 472 bytes, minus 40 for each removed node.
  constexpr std::string_view kTwo = R"(
graph() {
  w = f32[1,57]{-3...}
  a = Transpose(w)
  b = Concat<axis=0>(w, w)
  return a, b, w
}
)";
  EXPECT_EQ(nodes_with(kTwo, 0), 2u);
  EXPECT_EQ(nodes_with(kTwo, 203), 2u);
  EXPECT_EQ(nodes_with(kTwo, 204), 1u);
  EXPECT_EQ(nodes_with(kTwo, 431), 1u);
  EXPECT_EQ(nodes_with(kTwo, 432), 1u);
  EXPECT_EQ(nodes_with(kTwo, 635), 1u);
  EXPECT_EQ(nodes_with(kTwo, 636), 0u);
  EXPECT_EQ(nodes_with(kTwo, -1000), 2u);
  EXPECT_EQ(nodes_with("graph() { y = Neg(f32[3]{1,2,3})  return y }", -1000), 0u);
}

TEST(FoldConstants, does_not_spend_the_budget_on_dead_constants) {
  // The pieces are free because their source disappears with the node. Then the pair has no users.
  constexpr std::string_view kPieces = R"(
graph() {
  t = f32[1,57]{-2...}
  a = Transpose(t)
  w = f32[57]{-3...}
  s = Slice(Concat<axis=0>(w, w), i64[1]{0}, i64[1]{60})
  return s, a, t
}
)";
  EXPECT_EQ(nodes_with(kPieces, 203), 1u);
  EXPECT_EQ(nodes_with(kPieces, 204), 0u);
}

TEST(FoldConstants, names_of_large_constants_stay) {
  for (const auto& [size, name] : {std::pair<std::string, std::string_view>{"256", ""}, {"257", "t"}}) {
    const auto m =
        parse("graph(x: f32[3," + size + "]) { t = Transpose(f32[1," + size + "]{2...})  y = MatMul(x, t)  return y }");
    run_passes(*m, {.passes = {"fold_constants"}, .strict = true, .verify_graph = true});
    ASSERT_EQ(m->graph().num_nodes(), 1u);
    for (const Value* c : m->graph().constants()) {
      if (c->has_uses()) {
        EXPECT_EQ(c->name().view(), name);
      }
    }
  }
}

TEST(FoldConstants, keeps_weights_known_only_by_hash) {
  const auto m = parse("graph() { w = f32[3]{1,2,3}  y = Neg(w)  return y }");
  Graph& g = m->graph();
  g.set_constant(*g.constants()[0], Tensor::promise(DType::kF32, {3}, 17));
  run_passes(*m, {.passes = {"fold_constants"}, .strict = true, .verify_graph = true});
  EXPECT_EQ(g.num_nodes(), 1u);
}

}  // namespace
}  // namespace sardonyx
