// Readers of ONNX operators: one meaning over versions, axes from the front, defaults, and what is unknown.
#include "dialects/onnx/readers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sardonyx/ir.h"

namespace sardonyx::onnx::read {
namespace {

// A model of one operator of this version on x of this type.
struct One {
  One(const std::string& op, const std::string& type = "f32[2,3,5]", int opset = 18)
      : model(parse(fmt::format("opset {}\ngraph(x: {}, i: i64[2]) {{ y = {}  return y }}", opset, type, op))) {
    for (const Node& n : model->graph().nodes()) last = &n;
  }
  const Node& node() const { return *last; }

  std::unique_ptr<Model> model;
  const Node* last = nullptr;
};

TEST(OnnxReaders, AreForOneKindOfOperator) {
  const One relu("Relu(x)"), sum("ReduceSum(x)");
  EXPECT_FALSE(Transpose::of(relu.node()));
  EXPECT_FALSE(Transpose::of(nullptr));
  EXPECT_THROW(Transpose{relu.node()}, Error);
  EXPECT_TRUE(Reduce::of(sum.node()));
  One ill("ReduceSum(x)");
  ill.model->graph().first()->set_unchecked(true);
  EXPECT_FALSE(Reduce::of(ill.node()));
}

TEST(OnnxReaders, CountAxesFromTheFront) {
  EXPECT_EQ(Softmax(One("Softmax<axis=-2>(x)").node()).axis(), 1u);
  EXPECT_EQ(Softmax(One("Softmax(x)").node()).axis(), 2u) << "the default";
  EXPECT_EQ(Softmax(One("Softmax(x)", "f32[2,3,5]", 11).node()).axis(), 1u) << "the default of an older version";
  EXPECT_EQ(Softmax(One("Softmax<axis=-2>(x)", "f32[...]").node()).axis(), std::nullopt);
  EXPECT_EQ(Softmax(One("Softmax<axis=1>(x)", "f32[...]").node()).axis(), 1u);
  EXPECT_EQ(Concat(One("Concat<axis=-3>(x, x)").node()).axis(), 0u);
  const One out("Softmax<axis=-1>(x)");
  EXPECT_EQ(OpReader(out.node()).axis_in("axis", 5), 4u);
  EXPECT_EQ(OpReader(One("Softmax<axis=2>(x)").node()).axis_in("axis", 2), std::nullopt) << "out of range";
}

TEST(OnnxReaders, ReadAxesOfAttributeOrOperand) {
  EXPECT_EQ(Reduce(One("ReduceSum<axes=[-1, 0]>(x)", "f32[2,3,5]", 11).node()).axes(), (Ints{0, 2}));
  EXPECT_EQ(Reduce(One("ReduceSum(x, i64[2]{-1,0})").node()).axes(), (Ints{0, 2}));
  EXPECT_EQ(OpReader(One("ReduceSum(x, i64[2]{-1,0})").node()).given_axes(3), (Ints{0, 2}));
  EXPECT_EQ(OpReader(One("ReduceSum(x, i64[2]{-1,0})").node()).axes_at(1, 3), (Ints{2, 0})) << "in the operand's order";
  EXPECT_EQ(Reduce(One("ReduceSum(x, i)").node()).axes(), std::nullopt) << "computed";
  const One known("ReduceSum(x, Identity(i64[1]{1}))");
  ValueFacts facts;
  infer_model(*known.model, facts, /*tolerant=*/false);
  EXPECT_EQ(Reduce(known.node()).axes(), std::nullopt);
  EXPECT_EQ(Reduce(known.node(), facts).axes(), Ints{1}) << "inference knows it";
}

TEST(OnnxReaders, ReduceAllAxesUnlessGiven) {
  EXPECT_EQ(Reduce(One("ReduceSum(x)").node()).axes(), (Ints{0, 1, 2}));
  EXPECT_EQ(OpReader(One("ReduceSum(x)").node()).given_axes(3), std::nullopt);
  EXPECT_EQ(Reduce(One("ReduceSum(x)", "f32[...]").node()).axes(), std::nullopt);
  EXPECT_EQ(Reduce(One("ReduceSum<noop_with_empty_axes=1>(x)").node()).axes(), std::nullopt);
  EXPECT_EQ(Reduce(One("ReduceSum(x)").node()).keepdims(), true);
  EXPECT_EQ(Reduce(One("ReduceSum<keepdims=0>(x)").node()).keepdims(), false);
}

// The permutation of a Transpose whose operand has this type.
std::optional<Ints> perm(const std::string& type, const Ints& perm) {
  return Transpose(One(fmt::format("Transpose<perm=[{}]>(x)", fmt::join(perm, ", ")), type).node()).perm();
}

Ints axes(int64_t count) {
  Ints all;
  for (int64_t i = count; i-- > 0;) all.push_back(i);
  return all;
}

TEST(OnnxReaders, PermutationsNameEachAxisOnce) {
  EXPECT_EQ(perm("f32[...]", {2, 0, 1}), (Ints{2, 0, 1}));
  EXPECT_EQ(perm("f32[...]", {2, 0, 2}), std::nullopt);
  EXPECT_EQ(perm("f32[...]", {0, 0}), std::nullopt);
  EXPECT_EQ(perm("f32[...]", {0, -1}), std::nullopt);
  EXPECT_EQ(perm("f32[...]", {0, 2}), std::nullopt);
  EXPECT_EQ(perm("f32[...]", axes(65)), axes(65));
  Ints twice = axes(64);
  twice[5] = 0;
  EXPECT_EQ(perm("f32[...]", twice), std::nullopt);
}

TEST(OnnxReaders, PermutationsFitTheOperand) {
  EXPECT_EQ(perm("f32[2,3,5]", {2, 0, 1}), (Ints{2, 0, 1}));
  EXPECT_EQ(perm("f32[2,3]", {2, 0, 1}), std::nullopt);
  EXPECT_EQ(Transpose(One("Transpose(x)").node()).perm(), (Ints{2, 1, 0})) << "the default";
  EXPECT_EQ(Transpose(One("Transpose(x)", "f32[...]").node()).perm(), std::nullopt);
}

TEST(OnnxReaders, ApplyDefaults) {
  const One node("Gemm<transB=1>(x, x)", "f32[3,3]");
  const Gemm gemm(node.node());
  EXPECT_EQ(gemm.transA(), false);
  EXPECT_EQ(gemm.transB(), true);
  EXPECT_EQ(gemm.alpha(), 1.0);
}

}  // namespace
}  // namespace sardonyx::onnx::read
