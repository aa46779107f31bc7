// The check that tests turn on.
#include "driver/fixed_point.h"

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

TEST(FixedPoint, is_not_promised_by_lists_and_budgets) {
  const auto m = parse("opset 17 graph(x: f32[2,3]) { a = Neg(Neg(x))  y = Exp(a)  return y }");
  EXPECT_EQ(change_by_second_run(*m, {.passes = {"simplify_arithmetic", "name_fix"}}), std::nullopt);
  EXPECT_EQ(change_by_second_run(*m, {.fold_budget = 100}), std::nullopt);
}

}  // namespace
}  // namespace sardonyx
