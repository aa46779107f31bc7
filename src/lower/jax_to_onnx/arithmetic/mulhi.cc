// mulhi x y   =>   the upper half of the product: a shift of the product in a wider type
//
// For 64 bits, the upper half comes from products of halves.
// H. S. Warren, Hacker's Delight, 2nd edition, sections 8-2 and 8-3: for signed factors, the unsigned upper
// half minus each factor whose other factor is negative.
#include "lower/jax_to_onnx/lib/word.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_mulhi(Lowering& ctx) {
  const DType own = ctx.out_dtype();
  const auto factors = ctx.operands();
  if (bit_width(own) < 64) {
    Value* product = ctx.b.Mul(ctx.cast(factors[0], DType::kI64), ctx.cast(factors[1], DType::kI64));
    return {ctx.cast((Word::of(ctx, product) >> bit_width(own)).value(), own)};
  }
  constexpr uint64_t kLow = 0xFFFFFFFF;
  const Word x = Word::of(ctx, factors[0]), y = Word::of(ctx, factors[1]);
  const Word x0 = x & kLow, x1 = x >> 32, y0 = y & kLow, y1 = y >> 32;
  const Word upper_lower = x1 * y0, lower_upper = x0 * y1;
  const Word middle = ((x0 * y0) >> 32) + (upper_lower & kLow) + (lower_upper & kLow);
  Word high = x1 * y1 + (upper_lower >> 32) + (lower_upper >> 32) + (middle >> 32);
  if (is_signed(own)) high = high - (x >> 63) * y - (y >> 63) * x;
  return {ctx.cast(high.value(), own)};
}

}  // namespace sardonyx::jax_to_onnx
