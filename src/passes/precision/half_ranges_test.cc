// Bounds of values, and the findings on half precision that follow from bounds and runs.
// add_fp16_cast_bounds.sx tests the pass.
#include "passes/precision/half_ranges.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sardonyx/infer.h"

namespace sardonyx::precision {
namespace {

// a lies in [-3, 5], p in [2, 7], n in [-7, -2]; u is not bounded.
constexpr const char* kGraph = R"(
graph mil(x: f32[2,3,5], m: f32[5,7], s: f32[B,3,5], r: f32[...], c: f32[2,3,7,11], ok: bool[]) mil_opset "CoreML8" {{
  a: f32[2,3,5] = clip(x, alpha=f32 -3, beta=f32 5)
  p: f32[2,3,5] = clip(x, alpha=f32 2, beta=f32 7)
  n: f32[2,3,5] = clip(x, alpha=f32 -7, beta=f32 -2)
  u: f32[2,3,5] = identity(x)
  w: f32[5,7] = clip(m, alpha=f32 -4, beta=f32 3)
  e: f32[B,3,5] = clip(s, alpha=f32 -3, beta=f32 5)
  f: f32[...] = clip(r, alpha=f32 -3, beta=f32 5)
  d: f32[2,3,7,11] = clip(c, alpha=f32 -3, beta=f32 5)
  {}
  return y
}}
)";

struct Ranged {
  explicit Ranged(std::string_view body) : model(parse(fmt::format(fmt::runtime(kGraph), body))), context(*model, facts) {
    infer_model(*model, facts, /*tolerant=*/false);
    ranges.emplace(model->graph(), context);
  }
  Graph& graph() { return model->graph(); }
  Value& y() { return *graph().output(0); }
  Extent bounds() { return ranges->bounds(y()); }

  std::unique_ptr<Model> model;
  ValueFacts facts;
  PassContext context;
  std::optional<HalfRanges> ranges;
};

std::string text(const Extent& e) { return fmt::format("{:.4g} {:.4g}", e.low, e.high); }

struct Row {
  const char* body;
  const char* bounds;
};

const Row kRows[] = {
    // Bounded, whatever the operands.
    {"y = sigmoid(u)", "0 1"},
    {"y = softmax(u)", "0 1"},
    {"y = sigmoid_hard(u, alpha=f32 0.5, beta=f32 0.5)", "0 1"},
    {"y = tanh(u)", "-1 1"},
    {"y = erf(u)", "-1 1"},
    {"y = sin(u)", "-1 1"},
    {"y = cos(u)", "-1 1"},
    {"y = softsign(u)", "-1 1"},
    {"y = sign(u)", "-1 1"},
    {"y = atan(u)", "-1.6 1.6"},
    {"y = asin(u)", "-1.6 1.6"},
    {"y = acos(u)", "0 3.2"},
    {"y = relu6(u)", "0 6"},
    {"y = one_hot(i32[3]{0,2,1}, one_hot_vector_size=i32 5, on_value=f32 3, off_value=f32 -2)", "-2 3"},
    {"y = one_hot(i32[3]{0,2,1}, one_hot_vector_size=i32 5, on_value=f32 -3, off_value=f32 2)", "-3 2"},
    {"y = clip(u, alpha=f32 -3, beta=f32 5)", "-3 5"},
    {"y = clip(u, alpha=f32 5, beta=f32 -3)", "-inf inf"},
    // An op of the same name in another domain has no bounds.
    {"y: f32[2,3,5] = own::sigmoid(u)", "-inf inf"},
    // Increasing functions.
    {"y = identity(a)", "-3 5"},
    {"y = relu(a)", "0 5"},
    {"y = relu(p)", "2 7"},
    {"y = relu6(p)", "2 6"},
    {"y = relu6(n)", "0 0"},
    {"y = exp(a)", "0.04979 148.4"},
    {"y = exp2(a)", "0.125 32"},
    {"y = softplus(a)", "0.04859 5.007"},
    {"y = softplus(mul(p, f32 5))", "10 35"},
    {"y = floor(mul(a, f32 0.5))", "-2 3"},
    {"y = ceil(mul(a, f32 0.5))", "-2 3"},
    {"y = round(mul(a, f32 0.5))", "-2 3"},
    {"y = sqrt(p)", "0 2.646"},
    {"y = sqrt(a)", "0 2.236"},
    {"y = sqrt(n)", "0 0"},
    {"y = square(n)", "0 49"},
    {"y = square(a)", "0 25"},
    {"y = abs(n)", "0 7"},
    {"y = abs(a)", "0 5"},
    {"y = clip(a, alpha=f32 -1, beta=f32 2)", "-1 2"},
    {"y = clip(a, alpha=f32 -5, beta=f32 -4)", "-4 -4"},
    {"y = log(p)", "0.6931 1.946"},
    {"y = log(a)", "-104 1.609"},
    {"y = log(a, epsilon=f32 0.5)", "-104 1.705"},
    {"y = log(n, epsilon=f32 0.5)", "-104 -104"},
    {"y = log(n, epsilon=f32 9)", "0.6931 1.946"},
    // Decreasing, then increasing.
    {"y = gelu(a)", "-0.2 5"},
    {"y = gelu(n)", "-0.2 0"},
    {"y = silu(a)", "-0.3 5"},
    {"y = silu(n)", "-0.3 0"},
    {"y = elu(a, alpha=f32 0.5)", "-0.5 5"},
    {"y = elu(n, alpha=f32 -0.5)", "0 0.5"},
    {"y = elu(n, alpha=f32 0.5)", "-0.5 0"},
    {"y = leaky_relu(a, alpha=f32 0.5)", "-1.5 5"},
    {"y = leaky_relu(a, alpha=f32 -2)", "0 6"},
    {"y = leaky_relu(n, alpha=f32 0.5)", "-3.5 0"},
    {"y = leaky_relu(p, alpha=f32 -0.5)", "0 7"},
    {"y = leaky_relu(n, alpha=f32 -0.5)", "0 3.5"},
    // Two operands.
    {"y = add(a, p)", "-1 12"},
    {"y = add(a, f32 3)", "0 8"},
    {"y = sub(a, p)", "-10 3"},
    {"y = mul(a, p)", "-21 35"},
    {"y = mul(n, a)", "-35 21"},
    {"y = mul(n, n)", "0 49"},
    {"y = mul(a, a)", "0 25"},
    {"y = mul(n, p)", "-49 -4"},
    {"y = mul(u, f32[2,3,5]{0...})", "0 0"},
    {"y = real_div(a, p)", "-1.5 2.5"},
    {"y = real_div(p, n)", "-3.5 -0.2857"},
    {"y = real_div(p, a)", "-inf inf"},
    {"y = real_div(p, f32[2,1,1]{0.5,2})", "1 14"},
    {"y = real_div(p, f32[2,1,1]{-1,0.5})", "-inf inf"},
    {"y = real_div(p, relu(a))", "-inf inf"},
    {"y = real_div(p, sub(relu(a), f32 5))", "-inf inf"},
    {"y = maximum(a, p)", "2 7"},
    {"y = maximum(u, f32 3)", "3 inf"},
    {"y = minimum(a, p)", "-3 5"},
    {"y = minimum(u, f32 3)", "-inf 3"},
    {"y = select(ok, p, n)", "-7 7"},
    {"y = select(ok, n, p)", "-7 7"},
    {"y = select(ok, a, p)", "-3 7"},
    // Moves or selects elements.
    {"y = reshape(a, i32[2]{6,5})", "-3 5"},
    {"y = transpose(a, perm=i32[3]{2,0,1})", "-3 5"},
    {"y = expand_dims(a, axes=i32[1]{0})", "-3 5"},
    {"y = squeeze(reshape(a, i32[4]{2,1,3,5}), axes=i32[1]{1})", "-3 5"},
    {"y = slice_by_index(a, begin=i32[3]{0,0,0}, end=i32[3]{1,2,3})", "-3 5"},
    {"y = slice_by_size(a, begin=i32[3]{0,0,0}, size=i32[3]{1,2,3})", "-3 5"},
    {"y = tile(a, reps=i32[3]{1,2,1})", "-3 5"},
    {"y = reverse(a, axes=i32[1]{2})", "-3 5"},
    {"y = reverse_sequence(a, lengths=i32[2]{1,2}, seq_axis=i32 1, batch_axis=i32 0)", "-3 5"},
    {"y = flatten2d(a, axis=i32 1)", "-3 5"},
    {"y = depth_to_space(reshape(a, i32[4]{1,10,3,1}), block_size=i32 1)", "-3 5"},
    {"y = space_to_depth(reshape(a, i32[4]{1,5,2,3}), block_size=i32 1)", "-3 5"},
    {"y = pixel_shuffle(reshape(a, i32[4]{1,10,3,1}), upscale_factor=i32 1)", "-3 5"},
    {"y = pixel_unshuffle(reshape(a, i32[4]{1,10,3,1}), downscale_factor=u32 1)", "-3 5"},
    {"y = batch_to_space(reshape(a, i32[4]{2,3,5,1}), block_shape=i32[2]{2,1}, crops=i32[2,2]{0,0,0,0})", "-3 5"},
    {"y = upsample_nearest_neighbor(d, scale_factor_height=i32 2, scale_factor_width=i32 2)", "-3 5"},
    {"y = upsample_bilinear(d, scale_factor_height=i32 2, scale_factor_width=i32 2)", "-3 5"},
    {"y = max_pool(d, kernel_sizes=i32[2]{2,2}, pad_type=str \"valid\")", "-3 5"},
    {"y = reduce_max(a, axes=i32[1]{1})", "-3 5"},
    {"y = reduce_min(a, axes=i32[1]{1})", "-3 5"},
    {"y = reduce_mean(a, axes=i32[1]{1})", "-3 5"},
    {"y = gather(a, i32[2]{0,1}, axis=i32 1)", "-3 5"},
    {"y = gather_along_axis(a, i32[2,3,5]{0...}, axis=i32 1)", "-3 5"},
    {"y = gather_nd(a, i32[1,2]{0,1})", "-3 5"},
    {"y = sliding_windows(a, axis=i32 2, size=i32 3)", "-3 5"},
    {"y = cast(a, dtype=str \"fp16\")", "-3 5"},
    {"y = cast(a, dtype=str \"int32\")", "-3 5"},
    {"y = argsort(a, axis=i32 2)", "-inf inf"},
    {"y = reshape_like(a, begins=i32[1]{0}, ends=i32[1]{0}, end_masks=bool[1]{true}, ref_tensors=(p))", "-3 5"},
    // May add zeros or other numbers.
    {"y = band_part(p, lower=i32 1, upper=i32 1)", "0 7"},
    {"y = band_part(n, lower=i32 1, upper=i32 1)", "-7 0"},
    {"y = space_to_batch(reshape(p, i32[4]{2,3,5,1}), block_shape=i32[2]{1,1}, paddings=i32[2,2]{0,0,0,0})", "0 7"},
    {"y = avg_pool(reshape(n, i32[4]{2,3,5,1}), kernel_sizes=i32[2]{2,1}, pad_type=str \"valid\")", "-7 0"},
    {"y = pad(p, pad=i32[2]{1,1})", "0 7"},
    {"y = pad(p, pad=i32[2]{1,1}, mode=str \"constant\", constant_val=f32 3)", "2 7"},
    {"y = pad(p, pad=i32[2]{1,1}, mode=str \"constant\", constant_val=f32 9)", "2 9"},
    {"y = fill(i32[2]{2,3}, value=f32 7)", "7 7"},
    {"y = concat(axis=i32 0, values=(n, p))", "-7 7"},
    {"y = stack(axis=i32 0, values=(a, p))", "-3 7"},
    {"y = concat(axis=i32 0, values=(a, u))", "-inf inf"},
    {"y = concat(axis=i32 0, values=(i32[2]{1,2}, i32[1]{3}))", "-inf inf"},
    // Sums over known sizes.
    {"y = reduce_sum(a, axes=i32[2]{0,2})", "-30 50"},
    {"y = reduce_sum(p, axes=i32[1]{1})", "2 21"},
    {"y = reduce_sum(n, axes=i32[1]{1}, keep_dims=bool true)", "-21 -2"},
    {"y = reduce_sum(e, axes=i32[1]{1})", "-inf inf"},
    {"y = reduce_sum(f, axes=i32[1]{1})", "-inf inf"},
    {"y = reduce_sum(p, axes=i32[1]{1})", "2 21"},
    {"y = reduce_sum(relu(e), axes=i32[1]{0})", "0 inf"},
    {"y = reduce_sum(minimum(e, f32 0), axes=i32[1]{0})", "-inf 0"},
    {"y = reduce_sum(relu(e), axes=i32[1]{1})", "-inf inf"},
    {"y = reduce_sum(minimum(e, f32 0), axes=i32[1]{1})", "-inf inf"},
    {"y = reduce_l1_norm(a, axes=i32[1]{1})", "0 15"},
    {"y = reduce_l2_norm(a, axes=i32[1]{1})", "0 8.66"},
    {"y = reduce_sum_square(a, axes=i32[1]{1})", "0 75"},
    {"y = cumsum(a, axis=i32 1)", "-9 15"},
    {"y = cumsum(p, axis=i32 -1)", "0 35"},
    {"y = cumsum(n, axis=i32 -1)", "-35 0"},
    {"y = cumsum(a, axis=i32 0)", "-6 10"},
    {"y = cumsum(e, axis=i32 0)", "-inf inf"},
    {"y = cumsum(e, axis=i32 1)", "-9 15"},
    {"y = cumsum(f, axis=i32 1)", "-inf inf"},
    // Products with constants and with computed values.
    {"y = linear(a, weight=f32[2,5]{1,-2,3,-4,5, 2,2,2,2,2}, bias=f32[2]{-1,3})", "-76 78"},
    {"y = linear(a, weight=f32[2,5]{1,-2,3,-4,5, 2,2,2,2,2})", "-75 75"},
    {"y = linear(a, weight=f32[2,5]{1,-2,3,-4,5, 2,2,2,2,2}, bias=f32[2]{1,3})", "-75 78"},
    {"y = linear(a, weight=f32[2,5]{1,-2,3,-4,5, 2,2,2,2,2}, bias=f32[2]{-1,-3})", "-78 75"},
    {"y = linear(a, weight=f32[2,5]{2...})", "-50 50"},
    {"y = linear(u, weight=f32[2,5]{2...})", "-inf inf"},
    {"y = linear(reshape(m, i32[2]{5,7}), weight=w)", "-inf inf"},
    {"y = conv(d, weight=f32[2,3,1,2]{1,-2,3,-4,5,-6, 2,2,2,2,2,2})", "-105 105"},
    {"y = conv(d, weight=f32[2,3,1,2]{1,-2,3,-4,5,-6, 2,2,2,2,2,2}, bias=f32[2]{-1,3})", "-106 108"},
    {"y = conv(d, weight=d)", "-inf inf"},
    {"y = matmul(a, f32[5,2]{1,-2, 3,-4, 5,6, 7,8, 9,-10})", "-150 150"},
    {"y = matmul(a, f32[2,5]{1,-2,3,-4,5, 6,7,8,9,-10}, transpose_y=bool true)", "-200 200"},
    {"y = matmul(f32[2,3]{1,-2,3, 4,5,6}, a)", "-75 75"},
    {"y = matmul(f32[3,2]{1,-2, 3,4, 5,6}, a, transpose_x=bool true)", "-60 60"},
    {"y = matmul(a, f32[2,5,2]{1...})", "-50 50"},
    {"y = matmul(a, f32[2,2,5]{1...}, transpose_y=bool true)", "-50 50"},
    {"y = matmul(f32[3]{1,-2,3}, a)", "-30 30"},
    {"y = matmul(a, w)", "-100 100"},
    {"y = matmul(w, a, transpose_x=bool true, transpose_y=bool true)", "-100 100"},
    {"y = matmul(u, w)", "-inf inf"},
    {"y = matmul(e, w)", "-100 100"},
    {"y = matmul(transpose(e, perm=i32[3]{1,2,0}), transpose(e, perm=i32[3]{1,0,2}))", "-inf inf"},
    {"y = matmul(f, w)", "-inf inf"},
    {"y = matmul(minimum(relu(x), f32 0), f)", "-0 0"},
    {"y = linear(u, weight=f32[2,5]{0...})", "0 0"},
    {"y = linear(u, weight=f32[0,5]{})", "0 0"},
    {"y = add(a, f32[2,3,5]{2e38...})", "6.55e+04 6.551e+04"},
    {"y = add(a, f32[3,1]{-1e39,7,2})", "-1 12"},
    {"y = concat(axis=i32 0, values=(a, f32[0,3,5]{}))", "-3 5"},
    {"y = add(a, f32 9e37)", "9e+37 9e+37"},
    // Normalizations: n elements are at most sqrt(n) standard deviations from their mean.
    {"y = layer_norm(u, axes=i32[1]{2})", "-2.236 2.236"},
    {"y = layer_norm(u, axes=i32[2]{-1,1})", "-3.873 3.873"},
    {"y = layer_norm(u)", "-5.477 5.477"},
    {"y = layer_norm(u, axes=i32[1]{-1}, gamma=f32[5]{1,-2,3,-4,2}, beta=f32[5]{-1,2,0,3,1})", "-9.944 11.94"},
    {"y = layer_norm(s, axes=i32[1]{1})", "-1.732 1.732"},
    {"y = layer_norm(s, axes=i32[1]{0})", "-inf inf"},
    {"y = layer_norm(r, axes=i32[1]{1})", "-inf inf"},
    {"y = instance_norm(u)", "-2.236 2.236"},
    {"y = instance_norm(c, gamma=f32[3]{1,-2,1}, beta=f32[3]{-1,2,3})", "-18.55 20.55"},
    {"y = instance_norm(s)", "-2.236 2.236"},
    {"y = instance_norm(transpose(s, perm=i32[3]{1,2,0}))", "-inf inf"},
    {"y = instance_norm(r)", "-inf inf"},
};

TEST(HalfRanges, Bounds) {
  for (const Row& row : kRows) {
    Ranged r(row.body);
    EXPECT_EQ(text(r.bounds()), row.bounds) << row.body;
  }
}

TEST(HalfRanges, RunsStayWithinTheirBounds) {
  size_t seen = 0;
  for (const Row& row : kRows) {
    Ranged r(row.body);
    if (!r.ranges->observe_random(2, 7)) continue;
    const auto at = r.ranges->seen().find(&r.y());
    if (at == r.ranges->seen().end()) continue;
    ++seen;
    const double slack = 1e-6 * at->second.magnitude();
    EXPECT_LE(r.bounds().low, at->second.low + slack) << row.body;
    EXPECT_GE(r.bounds().high, at->second.high - slack) << row.body;
  }
  EXPECT_GT(seen, std::size(kRows) * 3 / 4);
}

TEST(HalfRanges, ConstantsOfAnyStorage) {
  Ranged r("y = add(a, f32[2,3,5]{1...})");
  Value& k = *r.y().def()->input(1);
  const auto bounds = [&](TensorPtr t) {
    r.graph().set_constant(k, std::move(t));
    r.ranges.emplace(r.graph(), r.context);
    return text(r.ranges->bounds(k));
  };
  const int64_t n = 40007;
  std::vector<float> many(static_cast<size_t>(n), 2);
  EXPECT_EQ(bounds(Tensor::of<float>(DType::kF32, {n}, many)), "2 2");
  many.front() = -5;
  many.back() = 7;
  EXPECT_EQ(bounds(Tensor::of<float>(DType::kF32, {n}, many)), "-5 7");
  std::swap(many.front(), many[16383]);
  std::swap(many.back(), many[16384]);
  EXPECT_EQ(bounds(Tensor::of<float>(DType::kF32, {n}, many)), "-5 7");
  size_t computed = 0;
  const auto whole = [&] {
    ++computed;
    const auto bytes = std::as_bytes(std::span(many));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(bounds(Tensor::defer(DType::kF32, {n}, whole)), "-5 7");
  EXPECT_EQ(computed, 2);  // for masks, and for bounds
  EXPECT_EQ(bounds(Tensor::promise(DType::kF32, {n}, 17)), "-inf inf");
  EXPECT_EQ(bounds(Tensor::of<int32_t>(DType::kI32, {1}, std::vector<int32_t>{3})), "3 3");
  EXPECT_EQ(bounds(Tensor::of<float>(DType::kF32, {0}, {})), "0 0");

  Ranged linear("y = linear(a, weight=f32[2,5]{1...})");
  linear.graph().set_constant(*linear.y().def()->input(1), Tensor::promise(DType::kF32, {2, 5}, 17));
  linear.ranges.emplace(linear.graph(), linear.context);
  EXPECT_EQ(text(linear.bounds()), "-inf inf");
}

TEST(HalfRanges, BranchesJoin) {
  const auto cond = [](const char* yes, const char* no) {
    return fmt::format("y = cond<true_fn=graph() {{ t = {}  return t }}, false_fn=graph() {{ t = {}  return t }}>(ok)", yes,
                       no);
  };
  EXPECT_EQ(text(Ranged(cond("relu(a)", "relu6(n)")).bounds()), "0 5");
  EXPECT_EQ(text(Ranged(cond("identity(n)", "identity(p)")).bounds()), "-7 7");
  EXPECT_EQ(text(Ranged(cond("identity(a)", "identity(u)")).bounds()), "-inf inf");
  EXPECT_EQ(text(Ranged("y = cond<true_fn=graph() { return f32 3 }, false_fn=graph() { return f32 -2 }>(ok)").bounds()),
            "-2 3");
  EXPECT_EQ(text(Ranged("y = f32[2]{3,-2}").bounds()), "-2 3");
}

// The finding on the op that computes y: the verdict, the value that decides, and whether it was seen.
std::string judged(Ranged& r) {
  const HalfFinding f = r.ranges->judge(*r.y().def());
  return fmt::format("{}: {}, {}{}", to_string(f.verdict), f.value == nullptr ? "none" : f.value->name().view(), text(f.extent),
                     f.seen ? ", seen" : "");
}
std::string judged(std::string_view body) {
  Ranged r(body);
  return judged(r);
}

TEST(HalfRanges, Verdicts) {
  EXPECT_EQ(judged("y = tanh(a)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = tanh(u)"), "unknown: u, -inf inf");
  EXPECT_EQ(judged("y = cast(ok, dtype=str \"fp32\")"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = cast(ok, dtype=str \"int32\")"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = cast(cast(u, dtype=str \"fp16\"), dtype=str \"int32\")"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = mul(a, f32 13000)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = mul(a, f32 14000)"), "may overflow: y, -4.2e+04 7e+04");
  EXPECT_EQ(judged("y = mul(n, f32 10000)"), "may overflow: y, -7e+04 -2e+04");
  EXPECT_EQ(judged("y = mul(p, f32 40000)"), "overflows: y, 8e+04 2.8e+05");
  EXPECT_EQ(judged("y = mul(n, f32 40000)"), "overflows: y, -2.8e+05 -8e+04");
  EXPECT_EQ(judged("y = clip(a, alpha=f32 -3, beta=f32 70000)"), "overflows: , 7e+04 7e+04");
  EXPECT_EQ(judged("y = add(a, f32[5]{70000,1,1,1,1})"), "overflows: , 1 7e+04");
  EXPECT_EQ(judged("y = minimum(a, f32 65504)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = add(minimum(relu(a), f32 0), f32 65504)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = sub(minimum(relu(a), f32 0), f32 65504)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = mul(a, f32 1e-9)"), "vanishes: y, -3e-09 5e-09");
  EXPECT_EQ(judged("y = mul(tanh(a), f32 2.98023223876953125e-8)"), "vanishes: y, -2.98e-08 2.98e-08");
  EXPECT_EQ(judged("y = mul(tanh(a), f32 2.99e-8)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = mul(a, f32 0)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = add(f32[399]{1e-9...}, f32 1)"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = add(f32[400]{1e-9...}, f32 1)"), "vanishes: , 1e-09 1e-09");
  EXPECT_EQ(judged("y = reduce_l2_norm(mul(a, f32 30), axes=i32[1]{2})"), "may overflow: y, 0 335.4");
  EXPECT_EQ(judged("y = reduce_l1_norm(mul(a, f32 30), axes=i32[1]{2})"), "safe: none, -inf inf");
  EXPECT_EQ(judged("y = reduce_l2_norm(mul(a, f32 20), axes=i32[1]{2})"), "safe: none, -inf inf");
}

TEST(HalfRanges, WhatWasSeenCounts) {
  Ranged r("y = mul(a, f32 14000)");
  EXPECT_EQ(judged(r), "may overflow: y, -4.2e+04 7e+04");
  r.ranges->tell({{"y", {-1, 3}}, {"nobody", {-1e9, 1e9}}});
  EXPECT_EQ(judged(r), "safe: none, -inf inf");
  r.ranges->tell({{"y", {-2, 1}}, {"x", {1, 2}}});
  EXPECT_EQ(text(r.ranges->seen().at(&r.y())), "-2 3");
  EXPECT_EQ(text(r.ranges->seen().at(r.graph().input(0))), "1 2");
  EXPECT_EQ(r.ranges->seen().size(), 2);
  r.ranges->tell({{"y", {0, 65505}}});
  EXPECT_EQ(judged(r), "overflows: y, -2 6.55e+04, seen");

  NamedExtents all{{"x", {1.5, 5}}};
  add_seen(*r.ranges, all);
  EXPECT_EQ(all.size(), 2);
  EXPECT_EQ(text(all.at("x")), "1 5");
  EXPECT_EQ(text(all.at("y")), "-2 6.55e+04");
  r.y().set_name({});
  all.clear();
  add_seen(*r.ranges, all);
  EXPECT_EQ(all.size(), 1);
}

TEST(HalfRanges, Runs) {
  Ranged r("y = add(add(minimum(relu(x), f32 0), f32[2,3,5]{2e38...}), f32 0)");
  EXPECT_TRUE(r.ranges->observe_random(1, 0));
  EXPECT_FALSE(r.ranges->seen().contains(&r.y()));  // no finite element
  const Value& z = *r.y().def()->input(0)->def()->input(0);
  EXPECT_EQ(text(r.ranges->seen().at(&z)), "0 0");

  EXPECT_FALSE(Ranged("y: f32[2,3,5] = own::sigmoid(u)").ranges->observe_random(1, 0));  // the evaluator cannot run it

  Ranged two("y = add(relu(x), f32[3,1]{-5,2,9})");
  const auto run = [&](float v) {
    std::vector<EvalValue> inputs(6);
    fill_inputs(two.graph(), inputs, 0);
    inputs[0] = EvalValue(Tensor::full(DType::kF32, {2, 3, 5}, v));
    two.ranges->observe(inputs);
  };
  run(3);
  EXPECT_EQ(text(two.ranges->seen().at(&two.y())), "-2 12");
  run(-1);
  EXPECT_EQ(text(two.ranges->seen().at(&two.y())), "-5 12");
  EXPECT_EQ(text(two.ranges->seen().at(two.graph().input(0))), "-1 3");
  EXPECT_FALSE(two.ranges->seen().contains(two.graph().input(5)));  // not floats
}

TEST(HalfRanges, RunsOfBodies) {
  Ranged r(
      "times, y = while_loop<cond=graph(i: i32[], h: f32[2,3,5]) { return less(i, i32 2) },"
      "body=graph(i: i32[], h: f32[2,3,5]) { return add(i, i32 1), mul(h, f32 10) }>(loop_vars=(i32 0, x))");
  std::vector<EvalValue> inputs(6);
  fill_inputs(r.graph(), inputs, 0);
  inputs[0] = EvalValue(Tensor::full(DType::kF32, {2, 3, 5}, 3));
  r.ranges->observe(inputs);
  const Value* h = r.y().def()->bodies()[1].graph->input(1);
  EXPECT_EQ(text(r.ranges->seen().at(h)), "3 300");
  EXPECT_EQ(r.ranges->seen().at(h).least, 3);
}

// Softmax handles values that a constant masks. A mask that comes from outside is cast as it is.
TEST(HalfRanges, MasksFromOutsideOverflow) {
  Ranged inside("y = softmax(add(relu(x), f32[2,3,5]{-3.4e38...}))");
  EXPECT_TRUE(inside.ranges->observe_random(1, 0));
  EXPECT_EQ(judged(inside), "unknown: , -6.55e+04 inf");
  EXPECT_EQ(text(inside.ranges->bounds(*inside.y().def()->input(0)->def()->input(1))), "-6.55e+04 -6.55e+04");

  Ranged outside("y = softmax(x)");
  std::vector<EvalValue> inputs(6);
  fill_inputs(outside.graph(), inputs, 0);
  inputs[0] = EvalValue(Tensor::full(DType::kF32, {2, 3, 5}, -3.4e38));
  outside.ranges->observe(inputs);
  EXPECT_EQ(judged(outside), "overflows: x, -3.4e+38 -3.4e+38, seen");
}

TEST(HalfRanges, Text) {
  const NamedExtents all = parse_ranges("-1.5 2 a\n\n0 0 two words\n1e-3 3e38 b");
  EXPECT_EQ(ranges_text(all), "-1.5 2 a\n0.001 3e+38 b\n0 0 two words\n");
  EXPECT_EQ(ranges_text(parse_ranges("-1 2/1e-08 a\n0 3/4 5 b")), "0 3/4 5 b\n-1 2/1e-08 a\n");
  EXPECT_EQ(parse_ranges("-1 2/1e-08 a").at("a").least, 1e-8);
  EXPECT_TRUE(parse_ranges("").empty());
  for (const char* wrong : {"1 2", "1 2 ", "1 a", "2 1 a", "x 1 a", "1 x a", "1", "1  2 a", "1,2 a", "nan 1 a", "1-2 3 a",
                            "1/2 3 a", "1 2/ a", "1 2/3a", "1 2/-3 a", "1 2/3"})
    EXPECT_THROW(parse_ranges(wrong), Error) << wrong;
  EXPECT_THROW(parse_ranges(std::string_view("1 2 a").substr(0, 3)), Error);
}

}  // namespace
}  // namespace sardonyx::precision
