#include "passes/calibration.h"

#include <gtest/gtest.h>

#include <map>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

EvalValue numbers(const std::vector<float>& x) {
  return EvalValue(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x));
}

// Inputs, constants and values that are results anyway count like all others, and the model stays as it is.
TEST(Calibration, ValuesOfEachRun) {
  const auto m = parse("opset 18 graph(x: f32[3]) { c = f32[3]{1,2,3}  a = Mul(x, c)  b = Neg(a)  return b }");
  const Graph& g = m->graph();
  std::vector<const Value*> values{g.inputs()[0].value, g.constants()[0]};
  for (Node& n : g.nodes()) values.push_back(n.result());
  std::map<size_t, std::vector<double>> seen;
  const Calibration runs{.runs = {{numbers({1, 1, 1})}, {numbers({5, 7, 11})}}};
  observe_values(*m, values, runs, [&](size_t i, const Array& x) {
    for (int64_t at = 0; at < x.size(); ++at) seen[i].push_back(x.double_at(at));
  });
  EXPECT_EQ(seen[0], (std::vector<double>{1, 1, 1, 5, 7, 11}));
  EXPECT_EQ(seen[1], (std::vector<double>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(seen[2], (std::vector<double>{1, 2, 3, 5, 14, 33}));
  EXPECT_EQ(seen[3], (std::vector<double>{-1, -2, -3, -5, -14, -33}));
  EXPECT_EQ(g.outputs().size(), 1U);
}

}  // namespace
}  // namespace sardonyx
