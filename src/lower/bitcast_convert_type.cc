// bitcast_convert_type[new_dtype] x   =>   BitCast<to>(x) from opset 26 on; before that
//   between integers of one width       Cast, which keeps the bits
//   between integers and floats         arithmetic on exponent and mantissa (lower/float_bits.h); NaN payloads are lost
//   to narrower elements                a new last axis, by shifts;  to wider ones: the last axis summed up after shifts
//
// jax.random makes floats in [1, 2) from random bits b as bitcast((b >> s) | bits of 1.0): that is 1 + (b >> s) 2^-mantissa.
#include <algorithm>
#include <cmath>

#include "lower/context.h"
#include "lower/float_bits.h"

namespace sardonyx {
namespace {

// One operand of a commutative equation that is a splat constant of these bits; the other operand, or null.
const Value* beside_constant(const Node& n, uint64_t bits) {
  for (size_t i = 0; i < 2; ++i) {
    const TensorPtr& payload = n.input(i)->constant();
    if (payload && payload->size() == 1 && static_cast<uint64_t>(payload->as_int(0)) == bits) return n.input(1 - i);
  }
  return nullptr;
}

// The mantissa (b >> s) if the operand is (b >> s) | bits of 1.0 with a shift that leaves mantissa bits only.
Value* mantissa_under_one(Lowering& at, const FloatFormat& f) {
  const Node* either = at.eqn.input(0)->def();
  if (either == nullptr || !either->is("or")) return nullptr;
  const Value* shifted = beside_constant(*either, static_cast<uint64_t>(f.bias()) << f.mantissa);
  const Node* shift = shifted != nullptr ? shifted->def() : nullptr;
  if (shift == nullptr || !shift->is("shift_right_logical") || !shift->input(1)->constant()) return nullptr;
  const TensorPtr& count = shift->input(1)->constant();
  if (count->size() != 1 || count->as_int(0) < bit_width(f.dtype) - f.mantissa || count->as_int(0) >= bit_width(f.dtype))
    return nullptr;
  return at.context().value(*shifted, at.b);
}

// Between numbers of one width.
Value* same_width(Lowering& at, Value* x, DType to) {
  if (is_float(x->dtype())) {
    FloatFormat f = FloatFormat::of(x->dtype());
    x = at.cast(float_bits(at, f, at.cast(x, f.wide())).value(), unsigned_of(to));
  }
  return at.cast(is_float(to) ? float_of_bits(at, FloatFormat::of(to), Word::of(at, x)) : x, to);
}

// 0, w, 2w, ... in the type of the words.
Value* shifts(Lowering& at, DType word, int64_t count, int64_t width) {
  std::vector<std::byte> bytes(byte_size(word, static_cast<uint64_t>(count)));
  for (int64_t i = 0; i < count; ++i) encode_element(word, bytes.data(), i, static_cast<double>(i * width));
  return at.b.constant(Tensor::own(word, {count}, std::move(bytes)));
}

}  // namespace

std::vector<Value*> lower_bitcast_convert_type(Lowering& at) {
  Value* x = operands(at)[0];
  DType from = x->dtype(), to = at.out_dtype();
  if (from == to) return {x};
  int wide = bit_width(from), narrow = bit_width(to);
  auto is_plain = [](DType t) { return bit_width(t) >= 8 && (is_integer(t) || (is_float(t) && bit_width(t) > 8)); };
  if (!is_plain(from) || !is_plain(to)) at.unsupported("only integers of 8 to 64 bits, f16, bf16, f32 and f64");
  if (wide == narrow) {
    if (is_integer(from) && is_integer(to)) return {at.cast(x, to)};
    if (at.b.opset() >= 26) return {at.b.BitCast(x, {.to = to})};
    if (is_float(to)) {
      FloatFormat f = FloatFormat::of(to);
      if (Value* mantissa = mantissa_under_one(at, f)) {
        Value* fraction = at.b.Mul(at.cast(mantissa, f.wide()), at.b.scalar(f.wide(), std::ldexp(1.0, -f.mantissa)));
        return {at.cast(at.b.Add(fraction, at.b.scalar(f.wide(), 1)), to)};
      }
    }
    return {same_width(at, x, to)};
  }
  if (wide > narrow) {
    Word word = Word::of(at, same_width(at, x, unsigned_of(from)));
    Value* column = at.unsqueeze(word.value(), std::vector{static_cast<int64_t>(at.in_rank(0))});
    Value* pieces = at.b.BitShift(column, shifts(at, column->dtype(), wide / narrow, narrow), {.direction = "RIGHT"});
    return {same_width(at, at.cast(pieces, unsigned_of(to)), to)};
  }
  DType word = narrow == 64 ? DType::kU64 : DType::kU32;
  Value* pieces = at.cast(same_width(at, x, unsigned_of(from)), word);
  pieces = at.b.BitShift(pieces, shifts(at, word, narrow / wide, wide), {.direction = "LEFT"});
  Value* whole = reduce(at, "ReduceSum", pieces, std::vector{static_cast<int64_t>(at.in_rank(0)) - 1});
  return {same_width(at, at.cast(whole, unsigned_of(to)), to)};
}

}  // namespace sardonyx
