// Arithmetic on constants for fusions. The cases of fuse_conv_bias, fuse_conv_scale and fuse_conv_batchnorm
// test the fusions themselves.
#include "passes/mil/constants/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sardonyx/eval.h"
#include "sardonyx/infer.h"

namespace sardonyx::mil {
namespace {

TensorPtr floats(std::vector<int64_t> shape, const std::vector<float>& v) {
  return Tensor::of<float>(DType::kF32, std::move(shape), v);
}

struct Program {
  explicit Program(std::string_view body)
      : model(parse(
            fmt::format("graph mil(x: f32[2,4,5,7], i: i32[4], v: f32[4], u: f32[...], g: i32[]) {{ {} return y }}", body))),
        context(*model, facts) {
    infer_model(*model, facts, /*tolerant=*/false);
  }
  Value& y() { return *model->graph().output(0); }
  std::unique_ptr<Model> model;
  ValueFacts facts;
  PassContext context;
};

TEST(MilPassWeights, Doubles) {
  EXPECT_EQ(doubles(*floats({3}, {1, -2, 0.5})), (std::vector<double>{1, -2, 0.5}));
  EXPECT_EQ(doubles(*Tensor::full(DType::kF32, {3}, 7)), (std::vector<double>{7, 7, 7}));
  EXPECT_EQ(doubles(*tensor_of(DType::kF16, {2}, {0.1, 65504})), (std::vector<double>{0.0999755859375, 65504}));
}

TEST(MilPassWeights, OnePerChannel) {
  const auto of = [](std::vector<int64_t> shape, size_t spatial = 2) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    std::vector<float> v(static_cast<size_t>(n));
    std::iota(v.begin(), v.end(), 1.0f);
    return per_channel(*floats(std::move(shape), v), spatial, 3);
  };
  const std::vector<double> all{1, 2, 3}, one{1};
  EXPECT_EQ(of({3, 1, 1}), all);
  EXPECT_EQ(of({1, 3, 1, 1}), all);
  EXPECT_EQ(of({3, 1}, 1), all);
  EXPECT_EQ(of({1}), one);
  EXPECT_EQ(of({1, 1, 1, 1, 1, 1}), one);
  EXPECT_FALSE(of({3}));
  EXPECT_FALSE(of({3, 1}));
  EXPECT_FALSE(of({1, 3}));
  EXPECT_FALSE(of({1, 1, 3}));
  EXPECT_FALSE(of({1, 1, 3, 1}));
  EXPECT_FALSE(of({1, 1, 3, 1, 1}));
  EXPECT_FALSE(of({2, 1, 1}));
  EXPECT_FALSE(of({3, 3, 1, 1}));
  EXPECT_FALSE(per_channel(*Tensor::promise(DType::kF32, {3, 1, 1}, 17), 2, 3));
  EXPECT_FALSE(per_channel(*Tensor::full(DType::kI32, {3, 1, 1}, 2), 2, 3));
  bool computed = false;
  const auto late = Tensor::defer(DType::kF32, {3, 1, 1}, [&] {
    computed = true;
    return std::vector<std::byte>(12);
  });
  EXPECT_FALSE(per_channel(*late, 2, 3));
  EXPECT_FALSE(computed);
}

TEST(MilPassWeights, ScalesThatComeBack) {
  const auto half = [](double v) { return comes_back(*tensor_of(DType::kF16, {2}, {1, v})); };
  const auto single = [](double v) { return comes_back(*tensor_of(DType::kF32, {2}, {1, v})); };
  EXPECT_TRUE(half(-256));
  EXPECT_FALSE(half(257));
  EXPECT_TRUE(half(std::ldexp(1, -14)));
  EXPECT_FALSE(half(std::ldexp(1, -15)));
  EXPECT_FALSE(half(std::ldexp(1.5, -15)));
  EXPECT_FALSE(half(0));
  EXPECT_TRUE(single(1e36));
  EXPECT_FALSE(single(-1.4e36));
  EXPECT_TRUE(single(std::ldexp(-1, -126)));
  EXPECT_FALSE(single(std::ldexp(1, -127)));
  EXPECT_FALSE(single(std::nan("")));
}

TEST(MilPassWeights, KnownThroughShapes) {
  const auto shape = [](std::string_view body) {
    Program p(body);
    const TensorPtr t = known_value(&p.y());
    if (t == nullptr) return std::string("unknown");
    return fmt::format("{}:{}", fmt::join(t->shape(), ","), t->as_double(t->size() - 1));
  };
  EXPECT_EQ(shape("y = f32[2,1,2]{1,2,3,4}"), "2,1,2:4");
  EXPECT_EQ(shape("y = squeeze(f32[2,1,2]{1,2,3,4}, axes=i32[1]{1})"), "2,2:4");
  EXPECT_EQ(shape("y = squeeze(f32[2,1,2]{1,2,3,4})"), "2,2:4");
  EXPECT_EQ(shape("y = expand_dims(f32[2,2]{1,2,3,4}, axes=i32[1]{0})"), "1,2,2:4");
  EXPECT_EQ(shape("y = reshape(f32[2,2]{1,2,3,4}, shape=i32[1]{4})"), "4:4");
  EXPECT_EQ(shape("y = reshape(v, shape=i32[2]{2,2})"), "unknown");
  EXPECT_EQ(shape("y = reshape(f32[4]{1,2,3,4}, shape=i)"), "unknown");
  EXPECT_EQ(shape("y = relu(f32[2,2]{1,2,3,4})"), "unknown");
  EXPECT_EQ(shape("y = identity(v)"), "unknown");
  EXPECT_EQ(known_value(nullptr), nullptr);
  Program p("y = reshape(f32[4]{1,2,3,4}, shape=i32[2]{2,2})");
  p.model->graph().set_constant(*p.y().def()->input(0), Tensor::promise(DType::kF32, {4}, 17));
  EXPECT_EQ(known_value(&p.y()), nullptr);
}

TEST(MilPassWeights, Convolutions) {
  const auto of = [](std::string_view node, bool any_weight = false) {
    Program p(fmt::format("y = {}", node));
    const auto c = convolution(*p.y().def(), p.context, any_weight);
    if (!c) return std::string("none");
    return fmt::format("{}{} of {}{}{}", c->channels, c->transposed ? " transposed" : "", c->groups,
                       c->weight == nullptr ? ", not constant" : "", c->bias == nullptr ? "" : ", biased");
  };
  EXPECT_EQ(of("conv(x, weight=f32[3,4,1,1]{1...})"), "3 of 1");
  EXPECT_EQ(of("conv(x, weight=f32[6,2,1,1]{1...}, groups=i32 2, bias=f32[6]{1...})"), "6 of 2, biased");
  EXPECT_EQ(of("conv_transpose(x, weight=f32[4,3,1,1]{1...})"), "3 transposed of 1");
  EXPECT_EQ(of("conv_transpose(x, weight=f32[4,3,1,1]{1...}, groups=i32 2)"), "6 transposed of 2");
  EXPECT_EQ(of("conv(x, weight=f32[4,4,1,1]{1...}, bias=v)"), "none");
  EXPECT_EQ(of("conv(x, weight=x)"), "none");
  EXPECT_EQ(of("conv(u, weight=f32[3,4]{1...})"), "none");
  EXPECT_EQ(of("conv(x, weight=f32[3,4,1,1]{1...}, groups=g)"), "none");
  EXPECT_EQ(of("relu(x)"), "none");
  EXPECT_EQ(of("linear(x, weight=f32[3,7]{1...})"), "none");
  const char* table = "conv(x, weight=constexpr_blockwise_shift_scale(i8[3,4,1,1]{1...}, scale=f32[1,1,1,1]{0.5...}))";
  EXPECT_EQ(of(table), "none");
  EXPECT_EQ(of(table, true), "3 of 1, not constant");
  EXPECT_EQ(of("conv(x, weight=sqrt(f32[3,4,1,1]{1...}))", true), "3 of 1, not constant");
  EXPECT_EQ(of("conv(x, weight=reshape(v, shape=i))", true), "none");
}

// How a weight is stored: as bytes, computed on demand as a whole or in pieces, or as one repeated element.
enum class Held : uint8_t { kBytes, kWhole, kPieces, kSplat };
TensorPtr held_as(Held how, const TensorPtr& t) {
  const std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  const auto read = [t](int64_t first, std::span<std::byte> out) { t->read(first, out); };
  switch (how) {
    case Held::kBytes: return t;
    case Held::kPieces: return Tensor::defer(t->dtype(), shape, Tensor::Fill(read));
    case Held::kSplat: return Tensor::full(t->dtype(), shape, t->as_double(1));
    case Held::kWhole:
      return Tensor::defer(t->dtype(), shape, [t, read] {
        std::vector<std::byte> all(t->byte_size());
        read(0, all);
        return all;
      });
  }
  return nullptr;
}

// Each product of a channel and its scale, whatever the layout of the weight and however it is stored.
TEST(MilPassWeights, Scaled) {
  const auto check = [](std::string_view op, std::vector<int64_t> shape, int64_t groups, DType dtype, bool deferred,
                        Held how = Held::kBytes) {
    SCOPED_TRACE(fmt::format("{} {} {}", op, fmt::join(shape, ","), groups));
    const bool transposed = op == "conv_transpose";
    const int64_t inputs = transposed ? shape[0] : shape[1] * groups, channels = transposed ? shape[1] * groups : shape[0];
    const std::string type(to_string(dtype));
    const auto m =
        parse(fmt::format("graph mil(x: {}[1,{},5,7]) {{ y = {}(x, weight={}[{}]{{1...}}, groups=i32 {}) return y }}", type,
                          inputs, op, type, fmt::join(shape, ","), groups));
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/false);
    PassContext context(*m, facts);
    Node& n = *m->graph().output(0)->def();
    std::vector<double> weight(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<double>(i % 23) / 3 - 1;
    const TensorPtr held = held_as(how, tensor_of(dtype, shape, weight));
    weight = doubles(*held);
    m->graph().set_constant(*n.input(1), held);
    std::vector<double> scale(static_cast<size_t>(channels)), shift(scale.size());
    for (size_t c = 0; c < scale.size(); ++c)
      scale[c] = (static_cast<double>(c) + 2) / 7, shift[c] = 0.5 * static_cast<double>(c);
    Rewriter b(m->graph(), context);
    b.set_insertion_point(&n);
    Value* made = scaled(b, *convolution(n, context), scale, shift);
    ASSERT_NE(made, nullptr);
    const Tensor& now = *made->def()->input(1)->constant();
    EXPECT_EQ(now.is_deferred(), deferred);
    std::vector<double> wanted(weight.size());
    const int64_t inner = shape[2] * shape[3], inputs_of_group = shape[0] / groups;
    for (size_t i = 0; i < weight.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / inner, in = row / shape[1], out = row % shape[1];
      const int64_t channel = transposed ? in / inputs_of_group * shape[1] + out : in;
      wanted[i] = weight[i] * scale[static_cast<size_t>(channel)];
    }
    EXPECT_EQ(doubles(now), doubles(*tensor_of(dtype, shape, wanted)));  // each rounded once
    EXPECT_EQ(doubles(*made->def()->input(2)->constant()), shift);
    // In pieces too.
    std::vector<std::byte> whole, piece(byte_size(dtype, 7));
    const auto bytes = now.bytes(whole);
    for (int64_t first = 0; first + 7 <= now.size(); first += 7) {
      now.read(first, piece);
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(byte_size(dtype, first))));
    }
  };
  check("conv", {6, 4, 3, 2}, 1, DType::kF32, false);
  check("conv", {6, 2, 3, 1}, 2, DType::kF16, false);
  check("conv_transpose", {6, 4, 3, 2}, 1, DType::kF32, false);
  check("conv_transpose", {6, 2, 3, 1}, 3, DType::kF32, false);
  check("conv", {64, 64, 2, 2}, 1, DType::kF32, false);  // 64 KiB
  check("conv", {65, 64, 2, 2}, 1, DType::kF32, true);
  check("conv_transpose", {66, 64, 2, 2}, 3, DType::kF16, false);
  check("conv_transpose", {132, 65, 2, 2}, 3, DType::kF16, true);
  check("conv", {6, 4, 3, 2}, 1, DType::kF32, false, Held::kWhole);
  check("conv", {6, 4, 3, 2}, 1, DType::kF16, false, Held::kPieces);
  check("conv_transpose", {6, 4, 3, 2}, 1, DType::kF32, false, Held::kSplat);
  check("conv", {65, 64, 2, 2}, 1, DType::kF32, false, Held::kWhole);
  check("conv", {65, 64, 2, 2}, 1, DType::kF32, true, Held::kPieces);
}

}  // namespace
}  // namespace sardonyx::mil
