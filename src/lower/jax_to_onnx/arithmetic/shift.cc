// shift_left x n, shift_right_logical x n, shift_right_arithmetic x n
//
// ONNX shifts unsigned integers of 8, 32 and 64 bits. Signed integers are shifted as unsigned ones of the
// same bits, and u16 as u32. A shift by the width or more is undefined in C++, and so in runtimes; in JAX it
// gives 0, or copies of the sign bit if arithmetic. Shift counts are unsigned.
//
// jnp.signbit and jnp.copysign ask for the highest bit of a float, its sign:
//   shift_right_* (bitcast_convert_type x) width - 1   =>   x < 0 or 1 / x < 0
// This is true for -0 and false for every NaN.
#include <algorithm>

#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/lib/narrow.h"
#include "lower/jax_to_onnx/lib/word.h"

namespace sardonyx::jax_to_onnx {
namespace {

DType signed_of(DType t) {
  switch (bit_width(t)) {
    case 8: return DType::kI8;
    case 16: return DType::kI16;
    case 32: return DType::kI32;
    default: return DType::kI64;
  }
}

// Shifts unsigned integers as the equation says; x is already unsigned.
Value* shift(Lowering& ctx, Value* x, Value* count, std::string_view direction) {
  int width = bit_width(x->dtype());
  Value* n = ctx.cast(count, x->dtype());
  Value* shifted = ctx.via("BitShift", {x, n}, {attr("direction", direction)});
  auto known = count->constant() ? count->constant()->to_ints() : std::nullopt;
  if (known && std::ranges::all_of(*known, [&](int64_t v) { return v >= 0 && v < width; })) return shifted;
  return ctx.select(ctx.via("Less", {n, ctx.b.scalar_int(n->dtype(), width)}), shifted, ctx.b.scalar_int(x->dtype(), 0));
}

// The sign of a float, if the equation shifts its bits so that only the sign bit is left; else null.
Value* sign_of_float(Lowering& ctx) {
  const Node* bits = ctx.node.input(0)->def();
  const TensorPtr& count = ctx.node.input(1)->constant();
  const int width = bit_width(ctx.out_dtype());
  if (ctx.b.opset() >= 26 || bits == nullptr || !bits->is("bitcast_convert_type") || count == nullptr) return nullptr;
  const Value& number = *bits->input(0);
  if (!is_float(number.dtype()) || is_narrow(number.dtype()) || bit_width(number.dtype()) != width) return nullptr;
  if (count->size() != 1 || count->as_int(0) != width - 1) return nullptr;
  Value* x = ctx.context().value(number, ctx.b);
  Value* zero = ctx.b.scalar(x->dtype(), 0);
  return ctx.b.Or(ctx.via("Less", {x, zero}), ctx.via("Less", {ctx.via("Reciprocal", {x}), zero}));
}

std::vector<Value*> logical_shift(Lowering& ctx, std::string_view direction) {
  auto xs = ctx.operands();
  DType own = ctx.out_dtype();
  return {ctx.cast(shift(ctx, ctx.cast(xs[0], unsigned_of(own)), xs[1], direction), own)};
}

}  // namespace

std::vector<Value*> lower_shift_left(Lowering& ctx) { return logical_shift(ctx, "LEFT"); }
std::vector<Value*> lower_shift_right_logical(Lowering& ctx) {
  if (Value* sign = sign_of_float(ctx)) return {ctx.cast(sign, ctx.out_dtype())};
  return logical_shift(ctx, "RIGHT");
}

// ~(~x >> n) for negative x: the mask is all ones there and 0 elsewhere. In unsigned types too, the sign is
// the highest bit.
std::vector<Value*> lower_shift_right_arithmetic(Lowering& ctx) {
  auto xs = ctx.operands();
  DType own = ctx.out_dtype(), bits = unsigned_of(own), with_sign = signed_of(own);
  if (Value* sign = sign_of_float(ctx)) return {ctx.cast(ctx.via("Neg", {ctx.cast(sign, with_sign)}), own)};
  Value* x = ctx.cast(xs[0], with_sign);
  Value* mask = ctx.via("Neg", {ctx.cast(ctx.via("Less", {x, ctx.b.scalar_int(with_sign, 0)}), with_sign)});
  Value* magnitude = ctx.cast(bitwise(ctx.b, "BitwiseXor", x, mask), bits);
  Value* shifted = ctx.cast(shift(ctx, magnitude, xs[1], "RIGHT"), with_sign);
  return {ctx.cast(bitwise(ctx.b, "BitwiseXor", shifted, mask), own)};
}

}  // namespace sardonyx::jax_to_onnx
