// Rewrites that read inputs of unknown rank are checked on shapes that their nodes accept.
#include <gtest/gtest.h>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

// The faults found in the rewrites of merge_consecutive, each evaluated by itself.
std::vector<std::string> faults_of(std::string_view text) {
  const auto m = parse(text);
  const PipelineReport report = run_passes(*m, {.passes = {"merge_consecutive"}, .verify = Verify::kPass});
  EXPECT_TRUE(report.passes.front().changed);
  return report.faults;
}

TEST(UnrankedInputs, take_the_rank_that_an_axis_asks_for) {
  EXPECT_EQ(faults_of("graph(x: f32[...]) { a = Concat<axis=3>(x, x, f32[1,1,1,2]{2...})"
                      "  b = Concat<axis=3>(a, f32[1,1,1,3]{0.5,-0.25,-1})  return b }"),
            std::vector<std::string>());
}

TEST(UnrankedInputs, broadcast_with_what_is_beside_them) {
  EXPECT_EQ(
      faults_of(
          "graph(x: f64[...], y: f64[...], c: bool[]) {"
          "  a = If<then_branch=graph() { r = Range(f64 1, f64 5, f64 2)  return r }, else_branch=graph() { return x }>(c)"
          "  b = Min(Min(x, a, a), y)  return b }"),
      std::vector<std::string>());
}

}  // namespace
}  // namespace sardonyx
