// onnxruntime's operators on quantized tensors: dequantize, compute in floats, quantize.
#include <fmt/format.h>

#include <functional>

#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {
namespace {

Value* real(Lowering& ctx, size_t i) { return dequantized(ctx, {i, i + 1, i + 2}, DType::kF32); }

// f of operand 0. Operands 1 and 2 are its scale and zero point, operands 3 and 4 those of the result.
std::vector<Value*> of_one(Lowering& ctx, const std::function<Value*(Value*)>& f) {
  return {quantized(ctx, f(real(ctx, 0)), 3, 4)};
}

void refuse_channels_last(Lowering& ctx) {
  if (ctx.int_attr("channels_last", 0) != 0) ctx.unsupported("pooling with the channels last");
}

}  // namespace

std::vector<Value*> lower_QLinearAdd(Lowering& ctx) {
  Value* x = real(ctx, 0);
  return {quantized(ctx, ctx.b.add(x, real(ctx, 3)), 6, 7)};
}

std::vector<Value*> lower_QLinearMul(Lowering& ctx) {
  Value* x = real(ctx, 0);
  return {quantized(ctx, ctx.b.mul(x, real(ctx, 3)), 6, 7)};
}

std::vector<Value*> lower_QLinearWhere(Lowering& ctx) {
  Value* x = real(ctx, 1);
  return {quantized(ctx, ctx.select(ctx.in(0), x, real(ctx, 4)), 7, 8)};
}

// The scale and the zero point of the result come first.
std::vector<Value*> lower_QLinearConcat(Lowering& ctx) {
  std::vector<Value*> parts;
  for (size_t i = 2; i < ctx.node.num_inputs(); i += 3) parts.push_back(real(ctx, i));
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(2));
  return {quantized(ctx, ctx.b.concat(parts, {.axis = as_int(axis), .interleave = false}), 0, 1)};
}

std::vector<Value*> lower_QLinearSigmoid(Lowering& ctx) {
  return of_one(ctx, [&](Value* x) { return ctx.b.sigmoid(x); });
}

std::vector<Value*> lower_QLinearLeakyRelu(Lowering& ctx) {
  return of_one(ctx, [&](Value* x) { return ctx.b.leaky_relu(x, {.alpha = ctx.like(x, ctx.float_attr("alpha", 0.01))}); });
}

// `opset` is the opset whose Softmax is meant. Before 13, Softmax treats all axes from `axis` on as one.
std::vector<Value*> lower_QLinearSoftmax(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", -1), ctx.rank(0));
  if (ctx.int_attr("opset", 13) < 13 && axis + 1 != ctx.rank(0))
    ctx.unsupported("softmax of an opset before 13 over several axes");
  return of_one(ctx, [&](Value* x) { return ctx.b.softmax(x, {.axis = as_int(axis)}); });
}

std::vector<Value*> lower_QLinearGlobalAveragePool(Lowering& ctx) {
  refuse_channels_last(ctx);
  return of_one(ctx, [&](Value* x) { return ctx.b.reduce_mean(x, {.axes = iota(ctx.rank(0) - 2, 2), .keep_dims = true}); });
}

std::vector<Value*> lower_QLinearAveragePool(Lowering& ctx) {
  refuse_channels_last(ctx);
  return of_one(ctx, [&](Value* x) { return average_pool(ctx, x); });
}

namespace {

// The product of x and the quantized operand 1, which may have a scale for each column, and the bias.
Value* biased_product(Lowering& ctx, Value* x, size_t scale, size_t zero, size_t bias) {
  const size_t rank = ctx.rank(1);
  Value* y = product(ctx, x, dequantized(ctx, {1, scale, zero}, x->dtype(), rank < 2 ? 0 : as_int(rank) - 1));
  return ctx.has(bias) ? ctx.b.add(y, ctx.in(bias)) : y;
}

}  // namespace

std::vector<Value*> lower_DynamicQuantizeMatMul(Lowering& ctx) {
  return {biased_product(ctx, rounded_to_bytes(ctx, 0), 2, 3, 4)};
}

// Operand 0 has one scale per column.
std::vector<Value*> lower_MatMulIntegerToFloat(Lowering& ctx) {
  const size_t rank = ctx.rank(0);
  Value* x = dequantized(ctx, {0, 2, 4}, ctx.in(2)->dtype(), rank < 2 ? 0 : as_int(rank) - 1);
  return {biased_product(ctx, x, 3, 5, 6)};
}

// Operand 6 is an i32 bias in units of both scales. Without a scale for it, the result is f32.
std::vector<Value*> lower_QGemm(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const bool trans_x = ctx.int_attr("transA", 0) != 0, trans_w = ctx.int_attr("transB", 0) != 0;
  const double alpha = ctx.float_attr("alpha", 1);
  Value* x = real(ctx, 0);
  Value* y = product(ctx, x, dequantized(ctx, {3, 4, 5}, DType::kF32, trans_w ? 0 : 1), trans_x, trans_w);
  if (ctx.has(6)) y = b.add(y, b.mul(ctx.cast(ctx.in(6), DType::kF32), b.mul(ctx.in(1), ctx.in(4))));
  if (alpha != 1) y = b.mul(y, ctx.like(y, alpha));
  return {ctx.has(7) ? quantized(ctx, y, 7, 8) : y};
}

}  // namespace sardonyx::onnx_to_mil
