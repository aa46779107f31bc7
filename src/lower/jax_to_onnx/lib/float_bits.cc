// Every step is exact: powers of two come from a table, and neither products with them nor sums of disjoint
// bits round.
#include "lower/jax_to_onnx/lib/float_bits.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

// table[i] = 2^(first + step * i), with `last` as its last element if given; indexed by an integer.
Value* power_of_two(Lowering& ctx, DType t, Value* index, int first, int step, int count, std::optional<double> last = {}) {
  std::vector<std::byte> bytes(byte_size(t, static_cast<uint64_t>(count)));
  for (int i = 0; i < count; ++i) encode_element(t, bytes.data(), i, std::ldexp(1.0, first + step * i));
  if (last) encode_element(t, bytes.data(), count - 1, *last);
  Value* table = ctx.b.constant(Tensor::own(t, {count}, std::move(bytes)));
  return ctx.b.Gather(table, ctx.cast(index, DType::kI64));
}

}  // namespace

FloatFormat FloatFormat::of(DType t) {
  switch (t) {
    case DType::kF16: return {t, 10, 5};
    case DType::kBF16: return {t, 7, 8};
    case DType::kF32: return {t, 23, 8};
    case DType::kF8E5M2: return {t, 2, 5};
    case DType::kF8E4M3FN: return {t, 3, 4, false};
    case DType::kF8E4M3FNUZ: return {t, 3, 4, false, true, false};
    case DType::kF8E5M2FNUZ: return {t, 2, 5, false, true, false};
    case DType::kF4E2M1: return {t, 1, 2, false, false};
    default: return {t, 52, 11};
  }
}

double FloatFormat::greatest_number() const {
  const auto significand = (infinity() - 1) & ((uint64_t{1} << mantissa) - 1);
  return std::ldexp(static_cast<double>(significand + (uint64_t{1} << mantissa)), greatest_exponent() - mantissa);
}

// A logarithm guesses the exponent, which may be off by one next to a power of two. The remaining significand
// shows that, and corrects it.
Word magnitude_bits(Lowering& ctx, const FloatFormat& f, Value* x) {
  OnnxBuilder& b = ctx.b;
  DType word = f.dtype == DType::kF64 ? DType::kU64 : DType::kU32;
  auto c = [&](double v) { return ctx.like(x, v); };
  const int least = 1 - f.bias(), count = f.greatest_exponent() - least + 1;
  Value* a = b.Abs(x);
  Value* guess = b.Clip(b.Floor(b.Mul(b.Log(a), c(1 / std::numbers::ln2))), c(least), c(f.greatest_exponent()));
  Value* index = b.Sub(guess, c(least));
  // Infinity and NaN are set below; until then any finite number will do.
  Value* special = b.Not(b.Less(a, c(std::numeric_limits<double>::infinity())));
  index = b.Where(special, c(0), index);
  a = b.Where(special, c(0), a);
  auto scaled = [&](Value* i) { return b.Mul(a, power_of_two(ctx, x->dtype(), i, -least, -1, count)); };
  Value* first = scaled(index);
  Value* up = ctx.cast(b.GreaterOrEqual(first, c(2)), x->dtype());
  Value* down = ctx.cast(b.Less(first, c(1)), x->dtype());
  index = b.Clip(b.Sub(b.Add(index, up), down), c(0), c(count - 1));
  // Below the least exponent the leading bit is missing, and the exponent field is 0 as it must be.
  Word significand(ctx, ctx.cast(b.Mul(scaled(index), c(std::ldexp(1.0, f.mantissa))), word));
  Word bits = significand + Word(ctx, ctx.cast(index, word)) * (uint64_t{1} << f.mantissa);
  Value* is_nan = b.IsNaN(x);
  Value* what = ctx.select(is_nan, bits.constant(f.nan()), bits.constant(f.infinity()));
  return {ctx, ctx.select(special, what, bits.value())};
}

Word float_bits(Lowering& ctx, const FloatFormat& f, Value* x) {
  Word bits = magnitude_bits(ctx, f, x);
  // If zero has no sign, NaN has the code of -0, and magnitude_bits() has set its sign already.
  Value* negative = f.has_signed_zero ? sign_bit(ctx, x) : ctx.b.Less(x, ctx.like(x, 0));
  return bits | Word(ctx, ctx.cast(negative, bits.value()->dtype())) * f.sign();
}

Value* magnitude_of_bits(Lowering& ctx, const FloatFormat& f, Word bits) {
  OnnxBuilder& b = ctx.b;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Word exponent = bits >> f.mantissa;
  Word leading = Word(ctx, b.Min({exponent.value(), exponent.constant(1)})) * (uint64_t{1} << f.mantissa);
  Word significand = (bits & ((uint64_t{1} << f.mantissa) - 1)) | leading;
  // Exponents 0 and 1 have the same unit; entry 0 is never read.
  Value* index = b.Max({exponent.value(), exponent.constant(1)});
  // Without infinity, the code after NaN's has one exponent more; the caller handles it.
  if (!f.has_infinity) index = b.Min({index, exponent.constant((uint64_t{1} << f.exponent) - 1)});
  const auto last = f.has_infinity ? std::optional(kInfinity) : std::nullopt;
  Value* unit = power_of_two(ctx, f.wide(), index, -f.bias() - f.mantissa, 1, 1 << f.exponent, last);
  Value* number = b.Mul(ctx.cast(significand.value(), f.wide()), unit);
  if (!f.has_nan || !f.has_signed_zero) return number;
  Value* is_nan =
      f.has_infinity ? b.Greater(bits.value(), bits.constant(f.infinity())) : b.Equal(bits.value(), bits.constant(f.nan()));
  return b.Where(is_nan, ctx.b.scalar(f.wide(), std::numeric_limits<double>::quiet_NaN()), number);
}

Value* float_of_bits(Lowering& ctx, const FloatFormat& f, Word bits) {
  OnnxBuilder& b = ctx.b;
  Value* size = magnitude_of_bits(ctx, f, bits & (f.sign() - 1));
  Value* number = b.Where(b.Less(bits.value(), bits.constant(f.sign())), size, b.Neg(size));
  if (!f.has_nan || f.has_signed_zero) return number;
  return b.Where(b.Equal(bits.value(), bits.constant(f.nan())), ctx.like(number, std::numeric_limits<double>::quiet_NaN()),
                 number);
}

}  // namespace sardonyx::jax_to_onnx
