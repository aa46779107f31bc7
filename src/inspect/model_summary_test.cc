// Arithmetic, traffic and memory, compared with hand counts.
#include "inspect/model_summary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

ModelSummary summary(std::string_view text) {
  const auto m = parse(text);
  return summarize(*m);
}

TEST(ModelSummary, DenseLayersOfANamedBatch) {
  const auto s = summary(
      "opset 23 graph(x: f32[B,3]) { h = Gemm(x, f32[3,5]{1...}, f32[5]{1...})  r = Relu(h)  y = MatMul(r, f32[5,7]{1...}) "
      "return y }");
  // Gemm 2*B*5*3 + B*5, Relu B*5, MatMul 2*B*7*5.
  EXPECT_EQ(s.all.flops, "110*B");
  // Gemm reads 3B + 15 + 5 and writes 5B; Relu 5B, 5B; MatMul 5B + 35, 7B; four bytes each.
  EXPECT_EQ(s.all.bytes, "120*B + 220");
  EXPECT_EQ(s.at, "B=1");
  EXPECT_EQ(s.all.at_flops, 110);
  // h and r at the Relu: x is not needed any more.
  EXPECT_EQ(s.peak_bytes, (5 + 7) * 4u);
  ASSERT_EQ(s.sizes.size(), 1u);
  EXPECT_EQ(s.sizes[0].name, "B");
  ASSERT_EQ(s.costly.size(), 3u);
  EXPECT_EQ(s.costly[0].op, "MatMul");
}

TEST(ModelSummary, ConvolutionsByWindowAndGroup) {
  const auto s = summary(
      "opset 23 graph(x: f32[2,6,11,13]) { c = Conv<kernel_shape=[3,5], group=3, strides=[2,2]>(x, f32[9,2,3,5]{1...}, "
      "f32[9]{1...})  p = MaxPool<kernel_shape=[2,2]>(c)  return p }");
  // The result of Conv is [2,9,5,5]: 450 elements of 2*3*5 multiply-adds and a bias; MaxPool [2,9,4,4] of 4.
  EXPECT_EQ(s.all.flops, std::to_string(450 * (2 * 30 + 1) + 288 * 4));
}

TEST(ModelSummary, NumbersAtSizesThatHaveResults) {
  const auto s = summary(
      "opset 23 graph(x: f32[N,3,H,W]) { c = Conv(x, f32[7,3,3,5]{1...})  p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)  "
      "return p }");
  EXPECT_EQ(s.at, "H=4, N=1, W=6");
  EXPECT_EQ(s.peak_bytes, (3 * 4 * 6 + 7 * 2 * 2) * 4u);
  // A slice that ends before it starts is empty at every size.
  const auto none = summary("opset 23 graph(x: f32[N]) { y = Slice(x, i64[1]{5}, i64[1]{3})  return y }");
  EXPECT_EQ(none.at, "N=1");
}

TEST(ModelSummary, TransposedConvolutionsByInput) {
  const auto s = summary("opset 23 graph(x: f32[2,6,11]) { y = ConvTranspose<strides=[2]>(x, f32[6,7,3]{1...})  return y }");
  EXPECT_EQ(s.all.flops, std::to_string(2 * (2 * 6 * 11) * (7 * 3)));
}

TEST(ModelSummary, AttentionByQueriesAndKeys) {
  const auto s =
      summary("opset 23 graph(q: f32[2,3,T,5], k: f32[2,3,S,5], v: f32[2,3,S,7]) { y = Attention(q, k, v)  return y }");
  // 2*3*T queries of 5 meet S keys, and S values of 7.
  EXPECT_EQ(s.all.flops, "144*S*T");
}

TEST(ModelSummary, RecurrentOperatorsByStep) {
  const auto s =
      summary("opset 22 graph(x: f32[11,2,3]) { y = LSTM<hidden_size=5>(x, f32[1,20,3]{1...}, f32[1,20,5]{1...})  return y }");
  EXPECT_EQ(s.all.flops, std::to_string(2 * 11 * 2 * (20 * 3 + 20 * 5)));
}

TEST(ModelSummary, BodiesByTripsAndFunctionsByCalls) {
  const auto scan = summary(
      "opset 23 graph(s: f32[3], x: f32[T,3]) { z, y = Scan<num_scan_inputs=1, body=graph(a: f32[3], b: f32[3]) { c = Add(a, "
      "b)  d = Mul(c, c)  return c, d }>(s, x)  return z, y }");
  EXPECT_EQ(scan.all.flops, "6*T");
  EXPECT_EQ(scan.open_loops, 0u);
  const auto loop = summary(
      "opset 23 graph(n: i64[], a: f32[3]) { y = Loop<body=graph(i: i64[], c: bool[], v: f32[3]) { w = Exp(v)  return c, w "
      "}>(n, _, a)  return y }");
  EXPECT_EQ(loop.all.flops, "3");
  EXPECT_EQ(loop.open_loops, 1u);
}

TEST(ModelSummary, CoreMLConvolutionsAndCastsWithModes) {
  const auto s = summary(
      "graph mil(x: f32[2,3,11,13]) mil_opset \"CoreML7\" { h = cast(x, dtype=str \"fp16\")  c = conv(h, "
      "weight=f16[5,3,3,3]{1...}, pad_type=str \"valid\")  return c }");
  EXPECT_EQ(s.all.flops, std::to_string(2 * (2 * 5 * 9 * 11) * (3 * 3 * 3)));
  EXPECT_EQ(s.unknown, 0u);
}

TEST(ModelSummary, CoreMLPrograms) {
  const auto s = summary(
      "graph mil(x: f32[2,3]) mil_opset \"CoreML7\" { y = linear(x, f32[5,3]{1...}, f32[5]{1...})  z = relu(y)  return z }");
  EXPECT_EQ(s.all.flops, std::to_string(2 * 2 * 5 * 3 + 10 + 10));
  EXPECT_TRUE(s.places.empty());
}

TEST(ModelSummary, TrafficAndMemoryOfViewsAndSelections) {
  const auto s =
      summary("opset 23 graph(i: i64[2]) { t = Gather(f32[101,3]{1...}, i)  r = Reshape(t, i64[1]{6})  y = Neg(r)  return y }");
  // Gather reads two rows of three and the indices, and writes the rows; the Reshape copies nothing.
  EXPECT_EQ(s.all.bytes, std::to_string(24 + 24 + 16 + 24 + 24));
  EXPECT_EQ(s.all.flops, "6");
  EXPECT_EQ(s.peak_bytes, 24u + 24u);  // r and y; the indices are dead
}

TEST(ModelSummary, UnknownWork) {
  const auto s = summary("opset 23 graph(x: f32[...]) { y = Neg(x)  z = own.Frob(y)  return z }");
  EXPECT_EQ(s.unknown, 2u);
  EXPECT_EQ(s.all.flops, "0");
}

TEST(ModelSummary, OperatorsWithoutARuleAreLeftOut) {
  const auto s = summary(
      "opset 20 graph(x: f32[1,2,3,5], g: f32[1,7,11,2]) { y = GridSample(x, g)  z = Resize<mode=\"linear\">(y, _, "
      "f32[4]{1,1,2,2})  w = Neg(z)  return w }");
  EXPECT_EQ(s.unknown, 2u);
  EXPECT_EQ(s.all.flops, std::to_string(2 * 14 * 22));
  const auto nearest = summary("opset 20 graph(x: f32[1,2,3,5]) { y = Resize(x, _, f32[4]{1,1,2,2})  return y }");
  EXPECT_EQ(nearest.unknown, 0u);
}

TEST(ModelSummary, JaxPrograms) {
  const auto s = summary(
      "graph jax(x: f32[B,7], w: f32[7,5]) { y: f32[B,5] = dot_general<dimension_numbers=(([1], [0]), ([], [])), "
      "preferred_element_type=f32>(x, w)  z: f32[B,5] = tanh(y)  return z }");
  EXPECT_EQ(s.all.flops, "75*B");  // 2*7*5 and 5
  EXPECT_EQ(s.unknown, 0u);
}

TEST(ModelSummary, SizesBeyondAllRanges) {
  const auto s = summary("opset 20 graph(x: f32[2000000000,2000000000,3], y: f32[3]) { a = Neg(x)  b = Neg(y)  return a, b }");
  EXPECT_EQ(s.unknown, 1u);
  EXPECT_EQ(s.unsized, 2u);
  EXPECT_EQ(s.all.flops, "3");
}

TEST(ModelSummary, Places) {
  const auto none = summary("opset 23 graph(x: u64[3]) { y = Relu(x)  return y }");
  EXPECT_TRUE(none.oldest_runtime.empty()) << none.oldest_runtime;
  const auto good = summary("opset 23 graph(x: f32[2,3]) { y = Relu(x)  z = Det(MatMul(y, Transpose(y)))  return z }");
  EXPECT_EQ(good.oldest_runtime, "ort-1.23");
  const auto webgpu = std::ranges::find(good.places, "WebGPU", &ModelSummary::Place::name);
  ASSERT_NE(webgpu, good.places.end());
  EXPECT_EQ(webgpu->refused, 1u);
  EXPECT_EQ(webgpu->reasons, std::vector<std::string>{"Det"});
}

TEST(ModelSummary, FoldedModules) {
  const std::vector<ModelSummary::Module> all = {{"a/b/c", 1, 2, 3}, {"a/b/d", 10, 20, 30}, {"a/e", 5, 5, 5}, {"f", 7, 7, 7}};
  EXPECT_EQ(folded(all, 4).size(), 4u);
  const auto three = folded(all, 3);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0].path, "a/b");
  EXPECT_EQ(three[0].nodes, 11u);
  EXPECT_EQ(folded(all, 1).size(), 2u);  // the first level stays
}

}  // namespace
}  // namespace sardonyx
