// The same program in both dialects: views tell the same of it, and make the same again.
#include "dialects/views.h"

#include <gtest/gtest.h>

namespace sardonyx {
namespace {

using Ints = std::vector<int64_t>;

// The node that makes the first result.
Node& last(Model& m) { return *m.graph().output(0)->def(); }

template <class Test>
void both(const char* onnx, const char* mil, Test&& test) {
  for (const char* text : {onnx, mil}) {
    SCOPED_TRACE(text);
    const auto m = parse(text);
    ASSERT_FALSE(last(*m).unchecked());
    test(*m, last(*m));
  }
}

Builder before_last(Model& m, ValueFacts& facts) {
  Builder b(m.graph(), facts);
  b.set_insertion_point(&last(m));
  return b;
}

TEST(Views, Transpose) {
  both("opset 21 graph(x: f32[2,3,5]) { y = Transpose<perm=[2,0,1]>(x)  return y }",
       "graph mil(x: f32[2,3,5]) { y = transpose(x, perm=i32[3]{-1,0,1})  return y }", [](Model& m, Node& n) {
         const view::Transpose t(n);
         ASSERT_TRUE(t);
         EXPECT_EQ(t.perm(), (Ints{2, 0, 1}));
         ValueFacts facts;
         Builder b = before_last(m, facts);
         Value* again = view::Transpose::make(b, t.x(), t.perm());
         EXPECT_EQ(again->type(), n.result()->type());
         EXPECT_EQ(view::Transpose(*again->def()).perm(), t.perm());
         EXPECT_FALSE(view::Reshape(n));
       });
  const auto reversed = parse("opset 21 graph(x: f32[2,3,5]) { y = Transpose(x)  return y }");
  EXPECT_EQ(view::Transpose(last(*reversed)).perm(), (Ints{2, 1, 0}));
  const auto dynamic = parse("graph mil(x: f32[2,3], p: i32[2]) { y = transpose(x, perm=p)  return y }");
  EXPECT_FALSE(view::Transpose(last(*dynamic)));
}

TEST(Views, ReshapeAndItsKin) {
  both("opset 21 graph(x: f32[B,6]) { y = Reshape(x, i64[3]{-1,2,3})  return y }",
       "graph mil(x: f32[B,6]) { y = reshape(x, shape=i32[3]{-1,2,3})  return y }", [](Model& m, Node& n) {
         const view::Reshape r(n);
         ASSERT_TRUE(r);
         EXPECT_EQ(r.shape(), (Ints{-1, 2, 3}));
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::Reshape::make(b, r.x(), *r.shape())->type(), n.result()->type());
       });
  both("opset 21 graph(x: f32[3,5]) { y = Unsqueeze(x, i64[2]{-1,0})  return y }",
       "graph mil(x: f32[3,5]) { y = expand_dims(x, axes=i32[2]{0,-1})  return y }", [](Model& m, Node& n) {
         const view::ExpandDims e(n);
         ASSERT_TRUE(e);
         EXPECT_EQ(e.axes(), (Ints{0, 3}));
         EXPECT_TRUE(view::Reshape(n));
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::ExpandDims::make(b, e.x(), e.axes())->type(), n.result()->type());
       });
  both("opset 21 graph(x: f32[1,5,1]) { y = Squeeze(x)  return y }", "graph mil(x: f32[1,5,1]) { y = squeeze(x)  return y }",
       [](Model& m, Node& n) {
         const view::Squeeze s(n);
         ASSERT_TRUE(s);
         EXPECT_EQ(s.axes(), (Ints{0, 2}));
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::Squeeze::make(b, s.x(), s.axes())->type(), n.result()->type());
       });
  const auto open = parse("graph mil(x: f32[B,5]) { y = squeeze(x, axes=i32[1]{0})  return y }");
  EXPECT_FALSE(view::Squeeze(last(*open))) << "B need not be 1";
}

TEST(Views, CastAndConcat) {
  both("opset 21 graph(x: f32[3]) { y = Cast<to=10>(x)  return y }",
       "graph mil(x: f32[3]) { y = cast(x, dtype=str \"fp16\")  return y }", [](Model& m, Node& n) {
         ASSERT_TRUE(view::Cast(n));
         EXPECT_EQ(view::Cast(n).to(), DType::kF16);
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::Cast::make(b, n.input(0), DType::kI32)->type()->dtype(), DType::kI32);
       });
  both("opset 21 graph(x: f32[3,2], y: f32[3,5]) { z = Concat<axis=-1>(x, y)  return z }",
       "graph mil(x: f32[3,2], y: f32[3,5]) { z = concat(axis=i32 -1, values=(x, y))  return z }", [](Model& m, Node& n) {
         const view::Concat c(n);
         ASSERT_TRUE(c);
         EXPECT_EQ(c.axis(), 1);
         EXPECT_EQ(c.values(), (std::vector<Value*>{m.graph().input(0), m.graph().input(1)}));
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::Concat::make(b, c.values(), 1)->type(), n.result()->type());
       });
  const auto woven = parse("graph mil(x: f32[3,2]) { z = concat(x, x, axis=i32 1, interleave=bool true)  return z }");
  EXPECT_FALSE(view::Concat(last(*woven)));
}

TEST(Views, ConvolutionsHaveTheirPadsByAxis) {
  both(R"(opset 21 graph(x: f32[2,6,11,13], w: f32[4,3,3,5], b: f32[4]) {
            y = Conv<dilations=[1,2], group=2, pads=[1,2,3,4], strides=[2,1]>(x, w, b)  return y })",
       R"(graph mil(x: f32[2,6,11,13], w: f32[4,3,3,5], b: f32[4]) {
            y = conv(x, w, bias=b, dilations=i32[2]{1,2}, groups=i32 2, pad_type=str "custom", pad=i32[4]{1,3,2,4}, strides=i32[2]{2,1})
            return y })",
       [](Model& m, Node& n) {
         const view::Conv c(n);
         ASSERT_TRUE(c);
         EXPECT_EQ(c.bias(), m.graph().input(2));
         EXPECT_EQ(c.groups(), 2);
         EXPECT_EQ(c.pads_before(), (Ints{1, 2}));
         EXPECT_EQ(c.pads_after(), (Ints{3, 4}));
         EXPECT_EQ(c.strides(), (Ints{2, 1}));
         EXPECT_EQ(c.dilations(), (Ints{1, 2}));
         EXPECT_EQ(c.pad_mode(), view::Conv::PadMode::kGiven);
         EXPECT_FALSE(c.transposed());
       });
  both("opset 21 graph(x: f32[2,3,7,7], w: f32[4,3,2,2]) { y = Conv<auto_pad=\"SAME_LOWER\">(x, w)  return y }",
       "graph mil(x: f32[2,3,7,7], w: f32[4,3,2,2]) { y = conv(x, w, pad_type=str \"same_lower\")  return y }",
       [](Model&, Node& n) {
         ASSERT_TRUE(view::Conv(n));
         EXPECT_EQ(view::Conv(n).bias(), nullptr);
         EXPECT_EQ(view::Conv(n).pad_mode(), view::Conv::PadMode::kSameLower);
       });
}

TEST(Views, PadsAndNorms) {
  both("opset 21 graph(x: f32[2,3,5]) { y = Pad(x, i64[4]{1,2,3,4}, f32 0.5, i64[2]{1,-1})  return y }",
       "graph mil(x: f32[2,3,5]) { y = pad(x, i32[4]{1,3,2,4}, mode=str \"constant\", constant_val=f32 0.5)  return y }",
       [](Model&, Node& n) {
         const view::Pad p(n);
         ASSERT_TRUE(p);
         EXPECT_EQ(p.before(), (Ints{0, 1, 2}));
         EXPECT_EQ(p.after(), (Ints{0, 3, 4}));
         EXPECT_EQ(p.value(), 0.5);
         EXPECT_EQ(p.mode(), view::Pad::Mode::kConstant);
       });
  both(R"(opset 21 graph(x: f32[2,3,5], g: f32[3], b: f32[3], m: f32[3], v: f32[3]) {
            y = BatchNormalization<epsilon=0.5>(x, g, b, m, v)  return y })",
       R"(graph mil(x: f32[2,3,5], g: f32[3], b: f32[3], m: f32[3], v: f32[3]) {
            y = batch_norm(x=x, mean=m, variance=v, gamma=g, beta=b, epsilon=f32 0.5)  return y })",
       [](Model& m, Node& n) {
         const view::BatchNorm b(n);
         ASSERT_TRUE(b);
         EXPECT_EQ(b.epsilon(), 0.5);
         EXPECT_EQ(b.gamma(), m.graph().input(1));
         EXPECT_EQ(b.beta(), m.graph().input(2));
         EXPECT_EQ(b.mean(), m.graph().input(3));
         EXPECT_EQ(b.variance(), m.graph().input(4));
       });
}

TEST(Views, ReductionsAndProducts) {
  both("opset 21 graph(x: f32[2,3,5]) { y = ReduceMean<keepdims=0>(x, i64[1]{-1})  return y }",
       "graph mil(x: f32[2,3,5]) { y = reduce_mean(x, axes=i32[1]{-1}, keep_dims=bool false)  return y }",
       [](Model& m, Node& n) {
         const view::Reduce r(n);
         ASSERT_TRUE(r);
         EXPECT_EQ(r.kind(), view::Reduce::Kind::kMean);
         EXPECT_EQ(r.axes(), (Ints{2}));
         EXPECT_FALSE(r.keep_dims());
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::Reduce::make(b, r.kind(), r.x(), r.axes(), false)->type(), n.result()->type());
       });
  both("opset 21 graph(x: f32[2,3]) { y = ReduceMax(x)  return y }",
       "graph mil(x: f32[2,3]) { y = reduce_max(x, keep_dims=bool true)  return y }", [](Model&, Node& n) {
         ASSERT_TRUE(view::Reduce(n));
         EXPECT_EQ(view::Reduce(n).axes(), (Ints{0, 1}));
         EXPECT_TRUE(view::Reduce(n).keep_dims());
       });
  both("opset 21 graph(x: f32[2,3]) { y = Softmax<axis=0>(x)  return y }",
       "graph mil(x: f32[2,3]) { y = softmax(x, axis=i32 -2)  return y }", [](Model&, Node& n) {
         ASSERT_TRUE(view::Softmax(n));
         EXPECT_EQ(view::Softmax(n).axis(), 0);
       });
  both("opset 21 graph(x: f32[2,3], y: f32[3,5]) { z = MatMul(x, y)  return z }",
       "graph mil(x: f32[2,3], y: f32[3,5]) { z = matmul(x, y)  return z }", [](Model& m, Node& n) {
         const view::MatMul p(n);
         ASSERT_TRUE(p);
         EXPECT_FALSE(p.transpose_x() || p.transpose_y());
         ValueFacts facts;
         Builder b = before_last(m, facts);
         EXPECT_EQ(view::MatMul::make(b, p.x(), p.y())->type(), n.result()->type());
         EXPECT_EQ(view::MatMul::make(b, p.x(), p.x(), false, true) != nullptr, m.dialect() == DialectId::kMil);
       });
  both("opset 21 graph(x: f32[2]) { y = Gelu<approximate=\"tanh\">(x)  return y }",
       "graph mil(x: f32[2]) { y = gelu(x, mode=str \"TANH_APPROXIMATION\")  return y }", [](Model&, Node& n) {
         ASSERT_TRUE(view::Gelu(n));
         EXPECT_TRUE(view::Gelu(n).tanh());
       });
}

TEST(Views, SharedNames) {
  both("opset 21 graph(x: f32[2], y: f32[2]) { z = Mul(x, y)  return z }",
       "graph mil(x: f32[2], y: f32[2]) { z = mul(x, y)  return z }", [](Model& m, Node& n) {
         EXPECT_EQ(view::shared_name(n.op()), "mul");
         EXPECT_EQ(view::shared_op(m, "mul"), &n.op());
         EXPECT_EQ(view::shared_op(m, "gelu"), nullptr);
       });
}

}  // namespace
}  // namespace sardonyx
