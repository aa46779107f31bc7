// Activation functions.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {

std::vector<Value*> lower_Celu(Lowering& ctx) {
  Value* x = ctx.in(0);
  const double alpha = ctx.float_attr("alpha", 1);
  if (alpha == 1) return {ctx.b.elu(x, {.alpha = ctx.like(x, 1)})};
  Value* y = ctx.b.elu(ctx.b.real_div(x, ctx.like(x, alpha)), {.alpha = ctx.like(x, 1)});
  return {ctx.b.mul(y, ctx.like(x, alpha))};
}

std::vector<Value*> lower_Clip(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const auto low = ctx.splat_value(1), high = ctx.splat_value(2);
  const bool is_known = (low || !ctx.has(1)) && (high || !ctx.has(2));
  // Core ML's clip requires bounds that differ.
  if (low && high && *low < *high && x->dtype() != DType::kI32)
    return {b.clip(x, {.alpha = ctx.like(x, *low), .beta = ctx.like(x, *high)})};
  if (is_known && low == 0.0 && !high && x->dtype() != DType::kI32) return {b.relu(x)};
  const bool is_u32 = ctx.are_from_u32();
  const auto flip = [&](Value* v) { return is_u32 ? ctx.flip_sign_bit(v) : v; };
  x = flip(x);
  if (ctx.has(1)) x = b.maximum(x, flip(ctx.in(1)));
  if (ctx.has(2)) x = b.minimum(x, flip(ctx.in(2)));
  return {flip(x)};
}

// In inference, Dropout keeps all elements; the mask, result 1, is all true.
std::vector<Value*> lower_Dropout(Lowering& ctx) {
  const auto training = ctx.splat_value(2), ratio = ctx.splat_value(1);
  if (ctx.has(2) && training != 0.0 && !(ctx.has(1) && ratio == 0.0)) ctx.unsupported("dropout that trains");
  std::vector<Value*> results{ctx.in(0)};
  if (ctx.is_used(1)) results.push_back(ctx.expand(ctx.b.scalar_int(DType::kBool, 1), ctx.in_dims(0)));
  results.resize(ctx.node.num_results());
  return results;
}

std::vector<Value*> lower_Elu(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.elu(x, {.alpha = ctx.like(x, ctx.float_attr("alpha", 1))})};
}

std::vector<Value*> lower_Gelu(Lowering& ctx) {
  const bool tanh = ctx.string_attr("approximate", "none") == "tanh";
  return {ctx.b.gelu(ctx.in(0), {.mode = tanh ? "TANH_APPROXIMATION" : "EXACT"})};
}

std::vector<Value*> lower_HardSigmoid(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.sigmoid_hard(
      x, {.alpha = ctx.like(x, ctx.float_attr("alpha", 0.2)), .beta = ctx.like(x, ctx.float_attr("beta", 0.5))})};
}

std::vector<Value*> lower_HardSwish(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.mul(x, ctx.b.sigmoid_hard(x, {.alpha = ctx.like(x, 1.0 / 6), .beta = ctx.like(x, 0.5)}))};
}

std::vector<Value*> lower_LeakyRelu(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.leaky_relu(x, {.alpha = ctx.like(x, ctx.float_attr("alpha", 0.01))})};
}

namespace {

// Before opset 13, Softmax treats all axes from `axis` on as one.
size_t softmax_axis(Lowering& ctx) {
  const size_t rank = ctx.rank(0);
  const bool old = ctx.node.op().since_version < 13;
  const size_t axis = from_front(ctx.int_attr("axis", old ? 1 : -1), rank);
  if (old && axis + 1 != rank) ctx.unsupported("softmax of an opset before 13 over several axes");
  return axis;
}

}  // namespace

// x - max, minus the logarithm of the sum of its exponentials.
std::vector<Value*> lower_LogSoftmax(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const int64_t axis = as_int(softmax_axis(ctx));
  Value* below = b.sub(x, b.reduce_max(x, {.axes = {axis}, .keep_dims = true}));
  Value* sum = b.reduce_sum(b.exp(below), {.axes = {axis}, .keep_dims = true});
  return {b.sub(below, b.log(sum, {.epsilon = ctx.like(x, 0)}))};
}

std::vector<Value*> lower_Mish(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.mul(x, ctx.b.tanh(ctx.b.softplus(x)))};
}

// Core ML's prelu has one slope per channel (axis 1).
std::vector<Value*> lower_PRelu(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  if (const auto slope = ctx.splat_value(1)) return {b.leaky_relu(x, {.alpha = ctx.like(x, *slope)})};
  const Type *t = x->type(), *slopes = ctx.in_type(1);
  const size_t n = slopes->rank();
  bool per_channel = ctx.in(1)->is_constant() && t->rank() >= 3 && n + 1 >= t->rank();
  for (size_t i = 0; per_channel && i < n; ++i) per_channel = i + t->rank() == n + 1 || slopes->dim(i).is(1);
  if (per_channel && t->dim(1).is_int() && slopes->static_size() == t->dim(1).value())
    return {b.prelu(x, {.alpha = ctx.in(1)->constant()->reshaped({t->dim(1).value()})})};
  Value* above = b.relu(x);
  Value* below = b.minimum(x, ctx.like(x, 0));
  return {b.add(above, b.mul(ctx.in(1), below))};
}

std::vector<Value*> lower_Selu(Lowering& ctx) {
  Value* x = ctx.in(0);
  const double alpha = ctx.float_attr("alpha", 1.67326319217681884765625),
               gamma = ctx.float_attr("gamma", 1.05070102214813232421875);
  return {ctx.b.mul(ctx.b.elu(x, {.alpha = ctx.like(x, alpha)}), ctx.like(x, gamma))};
}

std::vector<Value*> lower_Softmax(Lowering& ctx) { return {ctx.b.softmax(ctx.in(0), {.axis = as_int(softmax_axis(ctx))})}; }

Value* swish(Lowering& ctx, Value* x, double alpha) {
  if (alpha == 1) return ctx.b.silu(x);
  return ctx.b.mul(x, ctx.b.sigmoid(ctx.b.mul(x, ctx.like(x, alpha))));
}

std::vector<Value*> lower_SwiGLU(Lowering& ctx) {
  return {ctx.b.mul(swish(ctx, ctx.in(0), ctx.float_attr("alpha", 1)), ctx.in(1))};
}
std::vector<Value*> lower_Swish(Lowering& ctx) { return {swish(ctx, ctx.in(0), ctx.float_attr("alpha", 1))}; }

// Core ML's thresholded_relu also keeps x where x equals alpha.
std::vector<Value*> lower_ThresholdedRelu(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.select(ctx.b.greater(x, ctx.like(x, ctx.float_attr("alpha", 1))), x, ctx.like(x, 0))};
}

}  // namespace sardonyx::onnx_to_mil
