// nextafter x y   =>   the bits of |x| plus or minus 1; from 0, the least float with the sign of y;
//                      x if x = y; NaN if either is NaN
// reduce_precision[exponent_bits, mantissa_bits] x   =>   Cast to f16, bf16 or f32 and back; else rounds the bits
//
// XLA's reduce_precision flushes subnormal results to zeros of their sign.
#include <cmath>

#include "lower/jax_to_onnx/lib/float_bits.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_nextafter(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  auto xs = ctx.operands();
  DType own = ctx.out_dtype();
  FloatFormat f = FloatFormat::of(own);
  Value *x = ctx.cast(xs[0], f.wide()), *y = ctx.cast(xs[1], f.wide());
  Value* zero = ctx.like(x, 0);
  Word bits = magnitude_bits(ctx, f, x);
  // Grows unless y lies toward zero.
  Value* grows = b.Not(b.Xor(b.Less(x, y), b.Greater(x, zero)));
  Value* stepped = ctx.select(grows, b.Add(bits.value(), bits.constant(1)), b.Sub(bits.value(), bits.constant(1)));
  Value* is_zero = b.Equal(x, zero);
  Word next(ctx, ctx.select(is_zero, bits.constant(1), stepped));
  Value* size = magnitude_of_bits(ctx, f, next);
  Value* negative = b.Less(b.Where(is_zero, y, x), zero);
  Value* result = b.Where(b.Equal(x, y), y, b.Where(negative, b.Neg(size), size));
  // The sum is NaN if either operand is. For opposite infinities, whose sum is NaN too, any_nan is false.
  Value* any_nan = b.Or(b.IsNaN(x), b.IsNaN(y));
  return {ctx.cast(b.Where(any_nan, b.Add(x, y), result), own)};
}

namespace {

// Rounds to the nearest float of the format, ties to even. Numbers beyond its greatest become infinity,
// numbers below its least normal one become zero.
Value* round_bits(Lowering& ctx, Value* x, const FloatFormat& own, int64_t exponent, int64_t mantissa) {
  OnnxBuilder& b = ctx.b;
  Value* wide = ctx.cast(x, own.wide());
  Word bits = magnitude_bits(ctx, own, wide);
  if (mantissa < own.mantissa) {
    int dropped = static_cast<int>(own.mantissa - mantissa);
    uint64_t unit = uint64_t{1} << dropped;
    Word is_odd = (bits >> dropped) & 1;
    Word biased = bits + is_odd + Word(ctx, bits.constant(unit / 2 - 1));
    // NaN bits are meaningless here and may be carried beyond infinity.
    bits = Word(ctx, b.Min({(biased & ~(unit - 1)).value(), bits.constant(own.infinity())}));
  }
  if (exponent < own.exponent) {
    int bias = (1 << (exponent - 1)) - 1;
    // Exponent fields of `own`: from `too_large` on the format has infinity, below `too_small` no normal
    // numbers.
    auto too_large = static_cast<uint64_t>(own.bias() + bias + 1) << own.mantissa;
    auto too_small = static_cast<uint64_t>(own.bias() - bias + 1) << own.mantissa;
    Value* overflows = b.GreaterOrEqual(bits.value(), bits.constant(too_large));
    Value* underflows = b.Less(bits.value(), bits.constant(too_small));
    bits = Word(ctx, ctx.select(overflows, bits.constant(own.infinity()), bits.value()));
    bits = Word(ctx, ctx.select(underflows, bits.constant(0), bits.value()));
  }
  Value* size = magnitude_of_bits(ctx, own, bits);
  Value* rounded = b.Where(sign_bit(ctx, wide), b.Neg(size), size);
  return ctx.cast(b.Where(b.IsNaN(wide), wide, rounded), own.dtype);
}

}  // namespace

std::vector<Value*> lower_reduce_precision(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  int64_t exponent = ctx.int_param("exponent_bits"), mantissa = ctx.int_param("mantissa_bits");
  FloatFormat own = FloatFormat::of(ctx.out_dtype());
  if (exponent == own.exponent && mantissa == own.mantissa) return {x};
  for (DType t : {DType::kF16, DType::kBF16, DType::kF32}) {
    FloatFormat f = FloatFormat::of(t);
    if (exponent != f.exponent || mantissa != f.mantissa || bit_width(t) > bit_width(own.dtype)) continue;
    Value* rounded = ctx.cast(ctx.cast(ctx.cast(x, t), own.wide()), own.wide());
    if (exponent == own.exponent) return {ctx.cast(rounded, own.dtype)};
    Value* is_small = ctx.b.Less(ctx.b.Abs(rounded), ctx.like(rounded, std::ldexp(1.0, 1 - f.bias())));
    return {ctx.cast(ctx.b.Where(is_small, ctx.b.Mul(rounded, ctx.like(rounded, 0)), rounded), own.dtype)};
  }
  return {round_bits(ctx, x, own, exponent, mantissa)};
}

}  // namespace sardonyx::jax_to_onnx
