#include "inspect/value_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace sardonyx {
namespace {

EvalValue numbers(const std::vector<float>& x) {
  return EvalValue(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x));
}
double error(const std::vector<float>& reference, const std::vector<float>& found) {
  return relative_error(*numbers(reference).array(), *numbers(found).array()).worst;
}

TEST(ValueErrors, RelativeToTheLargestElement) {
  EXPECT_EQ(error({1, -4, 2}, {1, -4, 2}), 0);
  EXPECT_EQ(error({1, -4, 2}, {2, -4, 2}), 0.25);
  EXPECT_EQ(error({0, 0, 0}, {0, 0, 0}), 0);
  EXPECT_EQ(error({0, 0, 0}, {0, 1, 0}), INFINITY);
  EXPECT_EQ(error({1, 2, 4}, {1, NAN, 4}), INFINITY);
  EXPECT_EQ(error({1, NAN, INFINITY, 2}, {1, 3, 5, 1}), 0.5);  // where the reference is not finite, nothing counts
  EXPECT_EQ(error({1, 2}, {1, 2, 3}), INFINITY);
}

std::map<std::string, double> by_name(const char* found, const char* reference, std::vector<EvalValue> inputs) {
  const auto m = parse(found), other = parse(reference);
  std::map<std::string, double> all;
  for (const auto& [value, e] : value_errors(*m, *other, inputs)) all.emplace(value->name().view(), e);
  return all;
}

// A result is the result of that name. What has another name is compared where the nodes are the same.
TEST(ValueErrors, ValuesMatchByName) {
  const auto errors =
      by_name("opset 18 graph(x: f32[3]) { a = Mul(x, f32 2)  c = Neg(a)  d = Add(c, f32 1)  return y = d }",
              "opset 18 graph(x: f32[3]) { a = Mul(x, f32 3)  b = Neg(a)  c = Neg(b)  return y = c }", {numbers({1, 2, 4})});
  EXPECT_NEAR(errors.at("a"), 4.0 / 12, 1e-12);
  EXPECT_NEAR(errors.at("d"), 19.0 / 12, 1e-12);  // the result y: -7 instead of 12
  EXPECT_FALSE(errors.contains("b"));
  const auto renamed =
      by_name("opset 18 graph(x: f32[3]) { a = Mul(x, f32 2)  n = Neg(a)  return y = n }",
              "opset 18 graph(x: f32[3]) { b = Mul(x, f32 3)  n = Neg(b)  return y = n }", {numbers({1, 2, 4})});
  EXPECT_NEAR(renamed.at("a"), 4.0 / 12, 1e-12);
}

// Inputs have the names of the reference's, in any order; or its places, if names differ.
TEST(ValueErrors, InputsMatchByNameOrPlace) {
  const char* reference = "opset 18 graph(x: f32[3], z: f32[3]) { y = Sub(x, z)  return y }";
  const std::vector<EvalValue> inputs{numbers({1, 2, 4}), numbers({0, 1, 0})};
  EXPECT_EQ(by_name("opset 18 graph(z: f32[3], x: f32[3]) { y = Sub(x, z)  return y }", reference, inputs).at("y"), 0);
  EXPECT_EQ(by_name("opset 18 graph(p: f32[3], q: f32[3]) { y = Sub(p, q)  return y }", reference, inputs).at("y"), 0);
  EXPECT_EQ(by_name("opset 18 graph(x: f32[3]) { y = Identity(x)  return y }", reference, inputs).at("y"), 0.25);
  EXPECT_THROW(by_name("opset 18 graph(p: f32[3]) { y = Neg(p)  return y }", reference, inputs), Error);
  // In other types they are cast, and other shapes and kinds are no counterparts.
  EXPECT_EQ(by_name("opset 18 graph(x: f16[3], z: f16[3]) { y = Sub(x, z)  return y }", reference, inputs).at("y"), 0);
  EXPECT_TRUE(by_name("opset 18 graph(x: f32[3], z: f32[3]) { y = Shape(x)  return y }", reference, inputs).empty());
}

}  // namespace
}  // namespace sardonyx
