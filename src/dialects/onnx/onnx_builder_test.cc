// The builder: what it writes for each opset, where it puts nodes and constants, and what a refused call
// leaves behind.
#include "sardonyx/onnx_builder.h"

#include <gtest/gtest.h>

namespace sardonyx {
namespace {

struct Fixture {
  explicit Fixture(int opset) {
    model.set_opset_version("", opset);
    model.add_function("main");
    x = model.graph().add_input("x", model.types().tensor(DType::kF32, {2, 6}));
  }
  OnnxBuilder builder() { return OnnxBuilder(model.graph(), facts); }
  std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (Node& n : model.graph().nodes()) names.emplace_back(n.op().name);
    return names;
  }

  Model model{DialectId::kOnnx};
  ValueFacts facts;
  Value* x;
};

TEST(OnnxBuilder, AttributesOfNewerVersionsAreRefused) {
  Fixture old(17), now(23);
  OnnxBuilder b = old.builder(), c = now.builder();
  EXPECT_NO_THROW(b.Cast(old.x, {.to = DType::kF16}));
  EXPECT_NO_THROW(b.Cast(old.x, {.saturate = true, .to = DType::kF16}));
  EXPECT_THROW(b.Cast(old.x, {.saturate = false, .to = DType::kF16}), Error);
  EXPECT_EQ(c.Cast(now.x, {.saturate = false, .to = DType::kF16})->def()->attr_int("saturate", 1), 0);
  EXPECT_EQ(old.ops(), (std::vector<std::string>{"Cast", "Cast"}));
}

TEST(OnnxBuilder, FloatsAreRoundedToWhatFilesHold) {
  Fixture f(23);
  OnnxBuilder b = f.builder();
  EXPECT_EQ(b.LeakyRelu(f.x, {.alpha = 0.3})->def()->attr_float("alpha", 0), static_cast<double>(0.3f));
  EXPECT_TRUE(b.LeakyRelu(f.x, {.alpha = 0.01})->def()->attrs().empty()) << "the default is not written";
}

TEST(OnnxBuilder, NodesGoBeforeTheInsertionPoint) {
  Fixture f(23);
  OnnxBuilder b = f.builder();
  Value* last = b.Relu(f.x);
  b.set_insertion_point(last->def());
  b.Exp(f.x);
  b.Neg(f.x);
  b.set_insertion_point(nullptr);
  b.Abs(last);
  EXPECT_EQ(f.ops(), (std::vector<std::string>{"Exp", "Neg", "Relu", "Abs"}));
}

TEST(OnnxBuilder, ConstantsAreSharedByContent) {
  Fixture f(23);
  OnnxBuilder b = f.builder();
  EXPECT_EQ(b.i64s({1, 2}), b.i64s({1, 2}));
  EXPECT_NE(b.i64s({1, 2}), b.i64s({2, 1}));
  EXPECT_NE(b.scalar(DType::kF32, 1), b.scalar(DType::kF64, 1));
  EXPECT_EQ(b.scalar(DType::kF32, 1), f.builder().scalar(DType::kF32, 1)) << "two builders, one graph";
  Value* five = b.i64(5);
  EXPECT_NE(b.constant(Tensor::scalar(5), "five"), five) << "a name of its own makes a constant of its own";
}

TEST(OnnxBuilder, ScalarsAreExact) {
  Fixture f(23);
  OnnxBuilder b = f.builder();
  EXPECT_EQ(b.scalar_int(DType::kI64, INT64_MIN)->constant()->as_int(0), INT64_MIN);
  EXPECT_EQ(b.scalar_int(DType::kI4, -3)->constant()->as_int(0), -3);
  EXPECT_EQ(b.scalar_int(DType::kU8, 255)->constant()->as_int(0), 255);
  EXPECT_EQ(b.scalar_int(DType::kBool, 2)->constant()->as_int(0), 1);
  EXPECT_THROW(b.scalar_int(DType::kF32, 1), Error);
}

TEST(OnnxBuilder, ConstantsOfFunctionsAreNodes) {
  Fixture f(23);
  Function& function = f.model.add_function("helper");
  OnnxBuilder b(function.graph(), f.facts);
  Value* two = b.scalar(DType::kF32, 2);
  ASSERT_NE(two->def(), nullptr);
  EXPECT_TRUE(two->def()->is("Constant"));
  EXPECT_EQ(two, b.scalar(DType::kF32, 2));
  EXPECT_TRUE(function.graph().constants().empty());
}

TEST(OnnxBuilder, ARefusedIfLetsGoOfWhatItsBranchesRead) {
  Fixture f(23);
  OnnxBuilder b = f.builder();
  const auto branch = [&](bool cast) -> Graph& {
    Graph& g = f.model.new_graph();
    OnnxBuilder in(g, f.facts);
    g.add_output(cast ? *in.Cast(f.x, {.to = DType::kI32}) : *in.Relu(f.x), "y");
    return g;
  };
  Value* cond = b.constant(Tensor::full(DType::kBool, {}, 1));
  EXPECT_THROW(b.If(cond, branch(true), branch(false)), Error);
  EXPECT_EQ(f.model.graph().num_nodes(), 0u);
  EXPECT_FALSE(f.x->has_uses());
  Node& ok = b.If(cond, branch(false), branch(false));
  EXPECT_EQ(ok.result()->type(), f.x->type());
}

TEST(OnnxBuilder, ReducingNoAxesKeepsWhatEachReductionMeans) {
  Fixture f(17);
  OnnxBuilder b = f.builder();
  const std::vector<int64_t> none;
  EXPECT_EQ(b.reduce("ReduceMax", f.x, none, false), f.x);
  Value* squares = b.reduce("ReduceSumSquare", f.x, none, false);
  EXPECT_NE(squares, f.x);
  EXPECT_EQ(squares->type(), f.x->type());
  EXPECT_EQ(b.reduce("ReduceSum", f.x, std::nullopt, false)->type(), f.model.types().scalar(DType::kF32));
}

TEST(OnnxBuilder, HelpersDownToOpset13) {
  Fixture f(13);
  OnnxBuilder b = f.builder();
  const std::vector<int64_t> axis{0}, sizes{2, 4};
  EXPECT_EQ(b.unsqueeze(f.x, axis)->type(), f.model.types().tensor(DType::kF32, {1, 2, 6}));
  EXPECT_EQ(b.squeeze(b.unsqueeze(f.x, axis), axis)->type(), f.x->type());
  EXPECT_EQ(b.split(f.x, sizes, 1).at(1)->type(), f.model.types().tensor(DType::kF32, {2, 4}));
  EXPECT_EQ(b.reduce("ReduceMean", f.x, axis, true)->type(), f.model.types().tensor(DType::kF32, {1, 6}));
}

}  // namespace
}  // namespace sardonyx
