// Weights on the way from ONNX to Core ML: they stay views until they are written.
#include "sardonyx/coreml.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/tensor/tensor_transform.h"
#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

TensorPtr noise(std::vector<int64_t> shape) {
  int64_t size = 1;
  for (int64_t d : shape) size *= d;
  std::vector<float> values(static_cast<size_t>(size));
  uint32_t s = 7;
  for (float& v : values) {
    s = s * 1664525U + 1013904223U;
    v = static_cast<float>(s >> 8) * 0x1p-24F - 0.5F;
  }
  return Tensor::of<float>(DType::kF32, std::move(shape), values);
}

// The graph with noise for the inputs that have these names.
std::unique_ptr<Model> with_weights(std::string_view text, const std::vector<std::string>& names) {
  auto m = parse(text);
  Graph& g = m->graph();
  for (size_t i = g.inputs().size(); i-- > 0;) {
    Value* v = g.inputs()[i].value;
    if (std::ranges::find(names, g.inputs()[i].name.view()) == names.end()) continue;
    std::vector<int64_t> shape;
    for (Dim d : v->type()->dims()) shape.push_back(d.value());
    g.replace_uses(*v, *g.add_constant(noise(shape), "w"));
    g.remove_input(i);
  }
  return m;
}

TEST(ToCoreml, WeightsThatAreScaledAndTransposedAreNeverInMemoryAsAWhole) {
  const auto onnx = with_weights(R"(opset 17
graph(x: f32[1,11,202], w: f32[202,606], b: f32[606]) {
  h = Add(b, MatMul(x, w))
  t = Transpose<perm=[2,0,3,1,4]>(Reshape(h, i64[5]{1,11,3,2,101}))
  q, k, v = Split<axis=0>(t, i64[3]{1,1,1})
  q1 = Mul(Squeeze(q, i64[1]{0}), f32 0.3125)
  k1 = Mul(Transpose<perm=[0,1,3,2]>(Squeeze(k, i64[1]{0})), f32 0.3125)
  y = MatMul(Softmax<axis=-1>(MatMul(q1, k1)), Squeeze(v, i64[1]{0}))
  return y
})",
                                 {"w", "b"});
  const auto mil = to_coreml(*onnx, {.precision = CoremlPrecision::kF16});
  size_t large = 0;
  for (const Value* v : mil->graph().constants()) {
    if (v->constant()->byte_size() < (64U << 10)) continue;
    ++large;
    EXPECT_TRUE(v->constant()->is_deferred() && v->constant()->reads_in_pieces()) << v->name().view();
    const float scale = 0.3125F;
    const TensorPtr w = noise({202, 606});
    for (const int64_t row : {3, 205, 407}) {
      const float wanted = static_cast<float>(w->as_double(5 * 606 + row)) * (row < 404 ? scale : 1);
      EXPECT_NEAR(v->constant()->as_double(row * 202 + 5), wanted, 5e-4) << row;
    }
  }
  EXPECT_EQ(large, 1u);
}

// Converts an embedding whose transpose is the last layer, `head`, compares the results, and returns who uses
// each large constant.
std::vector<std::string> tied(std::string_view head, bool half) {
  const auto onnx = with_weights(fmt::format(R"(opset 17
graph(i: i64[7], e: f32[331,211], w: f32[211,331], b: f32[331]) {{
  h = Gather<axis=0>(e, i)
  y = {}
  return y
}})",
                                             head),
                                 {"e", "b"});
  Graph& g = onnx->graph();
  if (g.inputs().size() == 2) {  // w: stored a second time, as exporters do
    Value& w = *g.inputs()[1].value;
    std::vector<std::byte> scratch;
    const TensorPtr moved = transposed(noise({331, 211}), {1, 0});
    const auto bytes = moved->bytes(scratch);
    g.replace_uses(w, *g.add_constant(Tensor::own(DType::kF32, {211, 331}, {bytes.begin(), bytes.end()})));
    g.remove_input(1);
  }
  std::vector<int64_t> ids{0, 330, 5, 7, 11, 13, 17};
  const auto expected = evaluate(onnx->graph(), std::vector<EvalValue>{Tensor::vector(ids)});
  const auto mil = to_coreml(*onnx, {.precision = half ? CoremlPrecision::kF16 : CoremlPrecision::kF32});
  const auto found =
      evaluate(mil->graph(),
               std::vector<EvalValue>{Tensor::of<int32_t>(DType::kI32, {7}, std::vector<int32_t>(ids.begin(), ids.end()))});
  for (int64_t k = 0; k < expected[0].array()->size(); k += 101)
    EXPECT_NEAR(found[0].array()->double_at(k), expected[0].array()->double_at(k), half ? 0.03 : 1e-5) << head;
  std::vector<std::string> large;
  for (const Value* v : mil->graph().constants()) {
    if (v->constant()->size() < 10000) continue;
    std::string users;
    for (const Use& u : v->uses()) users += (users.empty() ? "" : ", ") + std::string(u.owner->op().name);
    large.push_back(users);
  }
  return large;
}

TEST(ToCoreml, AnEmbeddingThatIsTheLastLayerIsStoredOnce) {
  for (const bool half : {false, true}) {
    EXPECT_EQ(tied("MatMul(h, w)", half).size(), 1u);
    EXPECT_EQ(tied("Add(MatMul(h, w), b)", half).size(), 1u);
    EXPECT_EQ(tied("MatMul(h, Transpose<perm=[1,0]>(e))", half).size(), 1u);
    EXPECT_EQ(tied("Add(MatMul(h, Transpose<perm=[1,0]>(e)), b)", half).size(), 1u);
    EXPECT_EQ(tied("Gemm<transB=1>(h, e, b)", half).size(), 1u);
    EXPECT_EQ(tied("Gemm(h, w, b)", half).size(), 1u);
  }
}

}  // namespace
}  // namespace sardonyx
