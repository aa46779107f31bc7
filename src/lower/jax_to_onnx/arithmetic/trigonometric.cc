// tan x      =>   Tan(x), in f64 Sin(x) / Cos(x)
// atan x     =>   Atan(x), in f64 one step from the f32 value
// asin x     =>   Asin(x), in f64 2 atan(x / (1 + sqrt(1 - x^2)))
// acos x     =>   Acos(x), in f64 2 atan(sqrt(1 - x) / sqrt(1 + x))
// atan2 y x  =>   atan(|y| / |x|), mirrored into the quadrant given by the sign bits of x and y
//
// Runtimes have these operators only in f32.
#include <numbers>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kPi = std::numbers::pi;

bool in_f64(Lowering& ctx) { return ctx.out_dtype() == DType::kF64; }

// 1 - x^2 without cancellation near 1.
Value* one_minus_square(Lowering& ctx, Value* x) {
  Value* one = ctx.like(x, 1);
  return ctx.b.Mul(ctx.b.Sub(one, x), ctx.b.Add(one, x));
}

Value* atan(Lowering& ctx, Value* x) { return x->dtype() == DType::kF64 ? atan_f64(ctx, x) : ctx.b.Atan(x); }

}  // namespace

// y0 = atan in f32 is accurate to 1e-7. With x = tan y, tan(y - y0) = (x cos y0 - sin y0) / (cos y0 + x sin
// y0) is so small that it equals its arctangent. Beyond 1e300 the result is +-pi/2 to the last bit, and the
// products would overflow.
Value* atan_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* start = ctx.cast(b.Atan(ctx.cast(x, DType::kF32)), DType::kF64);
  Value* bounded = b.Clip(x, ctx.like(x, -1e300), ctx.like(x, 1e300));
  Value *sine = b.Sin(start), *cosine = b.Cos(start);
  Value* step = b.Div(b.Sub(b.Mul(bounded, cosine), sine), b.Add(cosine, b.Mul(bounded, sine)));
  return b.Add(start, step);
}

std::vector<Value*> lower_tan(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  if (in_f64(ctx)) return {ctx.b.Div(ctx.b.Sin(x), ctx.b.Cos(x))};
  return {ctx.via("Tan", {x})};
}

std::vector<Value*> lower_atan(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  if (in_f64(ctx)) return {atan_f64(ctx, x)};
  return {ctx.via("Atan", {x})};
}

std::vector<Value*> lower_asin(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  Value* x = ctx.operands()[0];
  if (!in_f64(ctx)) return {ctx.via("Asin", {x})};
  Value* half = b.Div(x, b.Add(ctx.like(x, 1), b.Sqrt(one_minus_square(ctx, x))));
  return {b.Mul(atan_f64(ctx, half), ctx.like(x, 2))};
}

std::vector<Value*> lower_acos(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  Value* x = ctx.operands()[0];
  if (!in_f64(ctx)) return {ctx.via("Acos", {x})};
  Value* one = ctx.like(x, 1);
  Value* half = b.Div(b.Sqrt(b.Sub(one, x)), b.Sqrt(b.Add(one, x)));
  return {b.Mul(atan_f64(ctx, half), ctx.like(x, 2))};
}

// |y| / |x| is NaN if both are 0 or both infinite. The sign of |y| = |x| is 0 or 1 there, and 1 for other
// equal sizes.
Value* atan2(Lowering& ctx, Value* y, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value *ay = b.Abs(y), *ax = b.Abs(x);
  Value* ratio = b.Where(b.Equal(ay, ax), b.Sign(ay), b.Div(ay, ax));
  Value* angle = atan(ctx, ratio);
  Value* upper = b.Where(sign_bit(ctx, x), b.Sub(ctx.like(x, kPi), angle), angle);
  // A product, because onnxruntime's Where returns 0 for a -0 in its first branch.
  return b.Mul(upper, b.Where(sign_bit(ctx, y), ctx.like(y, -1), ctx.like(y, 1)));
}

std::vector<Value*> lower_atan2(Lowering& ctx) {
  auto xs = ctx.operands();
  DType own = ctx.out_dtype(), wide = in_f64(ctx) ? DType::kF64 : DType::kF32;
  return {ctx.cast(atan2(ctx, ctx.cast(xs[0], wide), ctx.cast(xs[1], wide)), own)};
}

}  // namespace sardonyx::jax_to_onnx
