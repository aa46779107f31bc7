// Tests for the fixed-point check, which tests turn on.
#include "convert/guards/fixed_point.h"

#include <gtest/gtest.h>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

TEST(FixedPoint, says_what_a_second_run_does) {
  const auto m = parse("opset 17 graph(x: f32[2,3]) { a = Neg(Neg(x))  y = Exp(a)  return y }");
  const auto change = change_by_second_run(*m, {});
  ASSERT_TRUE(change);
  EXPECT_NE(change->find("simplify_arithmetic"), std::string::npos) << *change;
}

TEST(FixedPoint, holds_of_what_was_optimized) {
  const auto m = parse("opset 17 graph(x: f32[2,3]) { a = Neg(Neg(x))  y = Exp(a)  return y }");
  run_passes(*m, {});
  EXPECT_EQ(change_by_second_run(*m, {}), std::nullopt);
}

TEST(FixedPoint, is_checked_of_one_pass) {
  const auto m = parse("opset 17 graph(x: f32[2,3]) { a = Neg(Neg(x))  y = Exp(a)  return y }");
  EXPECT_NE(change_by_second_run(*m, {.passes = {"simplify_arithmetic"}}), std::nullopt);
  EXPECT_EQ(change_by_second_run(*m, {.passes = {"fuse_gelu"}}), std::nullopt);
}

TEST(FixedPoint, is_checked_of_the_last_pass_of_a_list) {
  const auto m = parse("opset 17 graph(x: f32[2,3]) { a = Neg(Neg(x))  y = Exp(a)  return y }");
  EXPECT_NE(change_by_second_run(*m, {.passes = {"fuse_gelu", "simplify_arithmetic"}}), std::nullopt);
  EXPECT_EQ(change_by_second_run(*m, {.passes = {"simplify_arithmetic", "fuse_gelu"}}), std::nullopt);
}

TEST(FixedPoint, needs_no_budget_of_the_second_run) {
  const auto m = parse("opset 17 graph(x: f32[2]) { y = Add(x, Neg(Expand(f32 2, i64[2]{4000,1})))  return y }");
  run_passes(*m, {.fold_budget = 100'000});
  EXPECT_EQ(change_by_second_run(*m, {.fold_budget = 100'000}), std::nullopt);
}

}  // namespace
}  // namespace sardonyx
