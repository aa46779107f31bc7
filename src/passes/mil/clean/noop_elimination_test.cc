// Checks what comparing graphs does not show: that each rule declares whether it changes bits. A division by
// the result shows whether -0 became 0.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// The mistake in the elimination of y = OP, or "".
std::string fault_of(std::string_view op, std::string_view type = "f32[1,2,3,5]") {
  const auto m = parse(fmt::format("opset 7 graph mil(x: {}) {{ y = {} z = real_div(f32 1, y) return z }}", type, op));
  const PipelineReport report = run_passes(*m, {.passes = {"noop_elimination"}, .verify_graph = true, .verify = Verify::kPass});
  if (!report.faults.empty()) return report.faults.front();
  return m->num_nodes() == 1 ? "" : "it stays";
}

TEST(NoopElimination, RulesThatChangeTheSignOfAZeroSaySo) {
  for (std::string_view op : {"identity(x)",
                              "add(x, f32 0)",
                              "add(x, f32 -0)",
                              "add(f32 0, x)",
                              "mul(x, f32 1)",
                              "sub(x, f32 0)",
                              "sub(x, f32 -0)",
                              "real_div(x, f32 1)",
                              "pow(x, f32 1)",
                              "linear_activation(x, alpha=f32 1, beta=f32 0)",
                              "linear_activation(x, alpha=f32 1, beta=f32 -0)",
                              "reshape(x, shape=i32[4]{1,2,3,5})",
                              "slice_by_index(x, begin=i32[4]{0,0,0,0}, end=i32[4]{1,2,3,5})",
                              "tile(x, reps=i32[4]{1,1,1,1})",
                              "transpose(x, perm=i32[4]{0,1,2,3})",
                              "pad(x, pad=i32[8]{0...}, mode=str \"constant\", constant_val=f32 0)",
                              "upsample_bilinear(x, scale_factor_height=i32 1, scale_factor_width=i32 1)",
                              "upsample_nearest_neighbor(x, scale_factor_height=i32 1, scale_factor_width=i32 1)",
                              "resize_bilinear(x, target_size_height=i32 3, target_size_width=i32 5)",
                              "crop(x, crop_height=i32[2]{0,0}, crop_width=i32[2]{0,0})"}) {
    EXPECT_EQ(fault_of(op), "") << op;
  }
}

}  // namespace
}  // namespace sardonyx
