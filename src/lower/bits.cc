// population_count x   =>   sums of bits in pairs, nibbles and bytes, then one product that adds the bytes
// clz x                =>   width - population_count(x with every bit below its highest set)
//
// Both after H. S. Warren, Hacker's Delight, 2nd edition, sections 5-1 and 5-3.
#include "lower/kernels.h"

namespace sardonyx {
namespace {

// Shifts, masks and wrapping products on u32 or u64.
class Word {
 public:
  Word(Lowering& at, Value* bits) : at_(&at), bits_(bits) {}
  Value* value() const { return bits_; }
  int width() const { return bit_width(bits_->dtype()); }
  Word operator>>(int n) const {
    return {*at_, at_->b.BitShift(bits_, constant(static_cast<uint64_t>(n)), {.direction = "RIGHT"})};
  }
  Word operator&(uint64_t mask) const { return {*at_, at_->b.BitwiseAnd(bits_, constant(mask))}; }
  Word operator|(Word other) const { return {*at_, at_->b.BitwiseOr(bits_, other.bits_)}; }
  Word operator+(Word other) const { return {*at_, at_->b.Add(bits_, other.bits_)}; }
  Word operator-(Word other) const { return {*at_, at_->b.Sub(bits_, other.bits_)}; }
  Word operator*(uint64_t factor) const { return {*at_, at_->b.Mul(bits_, constant(factor))}; }

 private:
  Value* constant(uint64_t v) const {
    if (width() == 32) v &= 0xFFFFFFFF;
    return at_->b.scalar_int(bits_->dtype(), static_cast<int64_t>(v));
  }

  Lowering* at_;
  Value* bits_;
};

Word count_bits(Word x) {
  constexpr uint64_t kPairs = 0x5555555555555555, kNibbles = 0x3333333333333333, kBytes = 0x0F0F0F0F0F0F0F0F;
  x = x - ((x >> 1) & kPairs);
  x = (x & kNibbles) + ((x >> 2) & kNibbles);
  x = (x + (x >> 4)) & kBytes;
  return (x * 0x0101010101010101) >> (x.width() - 8);
}

// The bits of x, and no others, in a u32 or u64.
Word word(Lowering& at, Value* x) {
  DType t = x->dtype();
  int width = bit_width(t);
  if (is_signed(t) && width < 32) x = at.cast(x, width == 8 ? DType::kU8 : DType::kU16);
  return {at, at.cast(x, width == 64 ? DType::kU64 : DType::kU32)};
}

}  // namespace

std::vector<Value*> lower_population_count(Lowering& at) {
  return {at.cast(count_bits(word(at, operands(at)[0])).value(), at.out_dtype())};
}

std::vector<Value*> lower_clz(Lowering& at) {
  int width = bit_width(at.out_dtype());
  Word x = word(at, operands(at)[0]);
  for (int n = 1; n < width; n *= 2) x = x | (x >> n);
  Value* ones = at.cast(count_bits(x).value(), at.out_dtype());
  return {via(at, "Sub", {at.b.scalar_int(at.out_dtype(), width), ones})};
}

}  // namespace sardonyx
