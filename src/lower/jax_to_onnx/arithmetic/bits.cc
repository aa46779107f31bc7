// population_count x   =>   sums of bits in pairs, nibbles and bytes, then one product that adds the bytes
// clz x                =>   width - population_count(x with every bit below its highest set)
//
// Both after H. S. Warren, Hacker's Delight, 2nd edition, sections 5-1 and 5-3.
#include "lower/jax_to_onnx/lib/word.h"

namespace sardonyx::jax_to_onnx {

DType unsigned_of(DType t) {
  switch (bit_width(t)) {
    case 2: return DType::kU2;
    case 4: return DType::kU4;
    case 8: return DType::kU8;
    case 16: return DType::kU16;
    case 32: return DType::kU32;
    default: return DType::kU64;
  }
}

Word Word::of(Lowering& ctx, Value* x) {
  DType bits = unsigned_of(x->dtype());
  return {ctx, ctx.cast(ctx.cast(x, bits), bits == DType::kU64 ? bits : DType::kU32)};
}

namespace {

Word count_bits(Word x) {
  constexpr uint64_t kPairs = 0x5555555555555555, kNibbles = 0x3333333333333333, kBytes = 0x0F0F0F0F0F0F0F0F;
  x = x - ((x >> 1) & kPairs);
  x = (x & kNibbles) + ((x >> 2) & kNibbles);
  x = (x + (x >> 4)) & kBytes;
  return (x * 0x0101010101010101) >> (x.width() - 8);
}

}  // namespace

std::vector<Value*> lower_population_count(Lowering& ctx) {
  return {ctx.cast(count_bits(Word::of(ctx, ctx.operands()[0])).value(), ctx.out_dtype())};
}

std::vector<Value*> lower_clz(Lowering& ctx) {
  int width = bit_width(ctx.out_dtype());
  Word x = Word::of(ctx, ctx.operands()[0]);
  for (int n = 1; n < width; n *= 2) x = x | (x >> n);
  Value* ones = ctx.cast(count_bits(x).value(), ctx.out_dtype());
  return {ctx.via("Sub", {ctx.b.scalar_int(ctx.out_dtype(), width), ones})};
}

}  // namespace sardonyx::jax_to_onnx
