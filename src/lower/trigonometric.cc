// tan x      =>   Tan(x), in f64 Sin(x) / Cos(x)
// atan x     =>   Atan(x), in f64 one step from the f32 value
// asin x     =>   Asin(x), in f64 2 atan(x / (1 + sqrt(1 - x^2)))
// acos x     =>   Acos(x), in f64 2 atan(sqrt(1 - x) / sqrt(1 + x))
// atan2 y x  =>   atan(|y| / |x|), mirrored into the quadrant that the sign bits of x and y name
//
// Runtimes have these operators in f32 only.
#include <numbers>

#include "lower/special.h"

namespace sardonyx {
namespace {

constexpr double kPi = std::numbers::pi;

bool in_f64(Lowering& at) { return at.out_dtype() == DType::kF64; }

// One minus x squared, without cancellation near 1.
Value* one_minus_square(Lowering& at, Value* x) {
  Value* one = like(at, x, 1);
  return at.b.Mul(at.b.Sub(one, x), at.b.Add(one, x));
}

Value* atan(Lowering& at, Value* x) { return x->dtype() == DType::kF64 ? atan_f64(at, x) : at.b.Atan(x); }

}  // namespace

// y0 = atan in f32 is right to 1e-7. With x = tan y, tan(y - y0) = (x cos y0 - sin y0) / (cos y0 + x sin y0) is so small
// that it equals its arctangent. Beyond 1e300 the result is +-pi/2 to the last bit, and the products would overflow.
Value* atan_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* start = at.cast(b.Atan(at.cast(x, DType::kF32)), DType::kF64);
  Value* bounded = b.Clip(x, like(at, x, -1e300), like(at, x, 1e300));
  Value *sine = b.Sin(start), *cosine = b.Cos(start);
  Value* step = b.Div(b.Sub(b.Mul(bounded, cosine), sine), b.Add(cosine, b.Mul(bounded, sine)));
  return b.Add(start, step);
}

std::vector<Value*> lower_tan(Lowering& at) {
  Value* x = operands(at)[0];
  if (in_f64(at)) return {at.b.Div(at.b.Sin(x), at.b.Cos(x))};
  return {via(at, "Tan", {x})};
}

std::vector<Value*> lower_atan(Lowering& at) {
  Value* x = operands(at)[0];
  if (in_f64(at)) return {atan_f64(at, x)};
  return {via(at, "Atan", {x})};
}

std::vector<Value*> lower_asin(Lowering& at) {
  OnnxBuilder& b = at.b;
  Value* x = operands(at)[0];
  if (!in_f64(at)) return {via(at, "Asin", {x})};
  Value* half = b.Div(x, b.Add(like(at, x, 1), b.Sqrt(one_minus_square(at, x))));
  return {b.Mul(atan_f64(at, half), like(at, x, 2))};
}

std::vector<Value*> lower_acos(Lowering& at) {
  OnnxBuilder& b = at.b;
  Value* x = operands(at)[0];
  if (!in_f64(at)) return {via(at, "Acos", {x})};
  Value* one = like(at, x, 1);
  Value* half = b.Div(b.Sqrt(b.Sub(one, x)), b.Sqrt(b.Add(one, x)));
  return {b.Mul(atan_f64(at, half), like(at, x, 2))};
}

// |y| / |x| is no number where both are 0 or both infinite: the sign of |y| = |x| gives 0 and 1 there, and 1 where it should.
Value* atan2(Lowering& at, Value* y, Value* x) {
  OnnxBuilder& b = at.b;
  Value *ay = b.Abs(y), *ax = b.Abs(x);
  Value* ratio = b.Where(b.Equal(ay, ax), b.Sign(ay), b.Div(ay, ax));
  Value* angle = atan(at, ratio);
  Value* upper = b.Where(sign_bit(at, x), b.Sub(like(at, x, kPi), angle), angle);
  // A product, since onnxruntime's Where gives 0 for a -0 in its first branch.
  return b.Mul(upper, b.Where(sign_bit(at, y), like(at, y, -1), like(at, y, 1)));
}

std::vector<Value*> lower_atan2(Lowering& at) {
  auto xs = operands(at);
  DType own = at.out_dtype(), wide = in_f64(at) ? DType::kF64 : DType::kF32;
  return {at.cast(atan2(at, at.cast(xs[0], wide), at.cast(xs[1], wide)), own)};
}

}  // namespace sardonyx
