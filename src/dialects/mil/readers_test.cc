// Readers of Core ML ops: axes from the front, defaults, and what is unknown.
#include "dialects/mil/readers.h"

#include <gtest/gtest.h>

#include "sardonyx/error.h"
#include "sardonyx/mil_builder.h"

namespace sardonyx::mil {
namespace {

using Ints = std::vector<int64_t>;

struct Program {
  Program() {
    model.add_function("main").mil_opset = "CoreML8";
    x = model.graph().add_input("x", model.types().tensor(DType::kF32, {2, 3, 5, 7}));
    unranked = model.graph().add_input("unranked", model.types().unranked(DType::kF32));
  }
  Value* computed(Ints shape) { return model.graph().add_input("computed", model.types().tensor(DType::kI32, shape)); }
  MilBuilder builder() { return MilBuilder(model.graph(), facts); }

  Model model{DialectId::kMil};
  ValueFacts facts;
  Value *x, *unranked;
};

TEST(MilReaders, AreForOneOp) {
  Program p;
  Node& n = *p.builder().relu(p.x)->def();
  EXPECT_FALSE(Transpose::of(n, p.facts));
  EXPECT_FALSE(Transpose::of(p.x->def(), p.facts)) << "an input of the graph";
  EXPECT_THROW(Transpose(n, p.facts), Error);
  Node& t = *p.builder().transpose(p.x, {.perm = {0, 2, 3, 1}})->def();
  ASSERT_TRUE(Transpose::of(t, p.facts));
  EXPECT_EQ(Transpose::of(t, p.facts)->x(), p.x);
  t.set_unchecked(true);
  EXPECT_FALSE(Transpose::of(t, p.facts)) << "ill-typed";
}

TEST(MilReaders, CountAxesFromTheFront) {
  Program p;
  MilBuilder b = p.builder();
  const auto node = [](Value* v) -> Node& { return *v->def(); };
  EXPECT_EQ(Transpose(node(b.transpose(p.x, {.perm = {0, -2, 3, -3}})), p.facts).perm(), (Ints{0, 2, 3, 1}));
  EXPECT_EQ(ReduceSum(node(b.reduce_sum(p.x, {.axes = {-1, 1}})), p.facts).axes(), (Ints{3, 1}));
  EXPECT_EQ(Softmax(node(b.softmax(p.x, {.axis = -3})), p.facts).axis(), 1u);
  EXPECT_EQ(Concat(node(b.concat({p.x, p.x}, {.axis = -4})), p.facts).axis(), 0u);
  // Ops that add axes count those, too.
  EXPECT_EQ(Stack(node(b.stack({p.x, p.x}, {.axis = -1})), p.facts).axis(), 4u);
  EXPECT_EQ(ExpandDims(node(b.expand_dims(p.x, {.axes = {-1, -6}})), p.facts).axes(), (Ints{5, 0}));
  EXPECT_EQ(OneHot(node(b.one_hot(p.computed({2, 3}), 5, {.axis = -1})), p.facts).axis(), 2u);
}

TEST(MilReaders, KnowNoAxisWithoutARank) {
  Program p;
  MilBuilder b = p.builder();
  EXPECT_EQ(Softmax(*b.softmax(p.unranked, {.axis = -1})->def(), p.facts).axis(), std::nullopt);
  EXPECT_EQ(Softmax(*b.softmax(p.unranked, {.axis = 1})->def(), p.facts).axis(), 1u) << "it is counted from the front";
  EXPECT_EQ(ReduceSum(*b.reduce_sum(p.unranked, {.axes = {0, -1}})->def(), p.facts).axes(), std::nullopt);
}

TEST(MilReaders, KnowNoAxisOutOfRange) {
  Program p;
  MilBuilder b = p.builder();
  Node& softmax = *b.softmax(p.x, {.axis = 1})->def();
  for (int axis : {4, -5}) {
    softmax.set_input(1, b.i32(axis));
    EXPECT_EQ(Softmax(softmax, p.facts).axis(), std::nullopt) << axis;
  }
  Node& t = *b.transpose(p.x, {.perm = {0, 2, 3, 1}})->def();
  for (const Ints& perm : {Ints{0, 1, 2, 4}, Ints{0, 1, 2, 2}, Ints{0, 1, 2, -2}}) {
    t.set_input(1, b.i32s(perm));
    EXPECT_EQ(Transpose(t, p.facts).perm(), std::nullopt);
  }
}

TEST(MilReaders, ApplyDefaults) {
  Program p;
  MilBuilder b = p.builder();
  EXPECT_EQ(Softmax(*b.softmax(p.x)->def(), p.facts).axis(), 3u);
  const Matmul product(*b.matmul(p.x, p.x, {.transpose_y = true})->def(), p.facts);
  EXPECT_FALSE(product.transpose_x());
  EXPECT_TRUE(product.transpose_y());
  Value* weight = b.constant(Tensor::full(DType::kF32, {11, 3, 1, 1}, 0.5));
  const Conv conv(*b.conv(p.x, weight, {.pad_type = "SAME"})->def(), p.facts);
  EXPECT_EQ(conv.pad_type(), "same") << "in lower case";
  EXPECT_EQ(conv.strides(), (Ints{1, 1}));
  EXPECT_EQ(conv.pad(), (Ints{0, 0, 0, 0}));
  EXPECT_EQ(conv.groups(), 1);
  EXPECT_EQ(conv.bias(), nullptr);
  EXPECT_EQ(conv.value_in("strides"), nullptr);
  const SliceByIndex slice(
      *b.slice_by_index(p.x, {0, 1, 0, 0}, {2, 3, 5, 7}, {.begin_mask = {true, false, false, false}})->def(), p.facts);
  EXPECT_EQ(slice.stride(), (Ints{1, 1, 1, 1}));
  EXPECT_EQ(slice.begin_mask(), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(slice.end_mask(), std::vector<bool>(4, false));
  EXPECT_EQ(Squeeze(*b.squeeze(p.x)->def(), p.facts).axes(), std::nullopt) << "all of size 1: no default";
}

TEST(MilReaders, KnowNoComputedParameter) {
  Program p;
  MilBuilder b = p.builder();
  Value* shape = p.computed({2});
  const Reshape reshape(*b.reshape(p.x, shape)->def(), p.facts);
  EXPECT_EQ(reshape.shape(), std::nullopt);
  EXPECT_EQ(reshape.value_in("shape"), shape);
  // Inference knows the elements of a shape.
  EXPECT_EQ(Reshape(*b.reshape(p.x, b.shape(p.x))->def(), p.facts).shape(), (Ints{2, 3, 5, 7}));
  Node& t = *b.transpose(p.x, {.perm = {0, 1, 2, 3}})->def();
  t.set_input(1, p.computed({4}));
  EXPECT_EQ(Transpose(t, p.facts).perm(), std::nullopt);
}

}  // namespace
}  // namespace sardonyx::mil
