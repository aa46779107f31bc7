// bitcast_convert_type[new_dtype] x   =>   BitCast<to>(x) from opset 26 on; before that
//   between integers of one width       Cast, which keeps the bits
//   between integers and floats         arithmetic on exponent and mantissa (lower/jax_to_onnx/lib/float_bits.h)
//   to narrower elements                shifts along a new last axis
//   to wider elements                   shifts, then a sum over the last axis
//
// The arithmetic loses NaN payloads.
//
// jax.random makes floats in [1, 2) from random bits b as bitcast((b >> s) | bits of 1.0). That is
// 1 + (b >> s) 2^-mantissa.
#include <algorithm>
#include <cmath>

#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/lib/float_bits.h"
#include "lower/jax_to_onnx/lib/narrow.h"

namespace sardonyx::jax_to_onnx {
namespace {

// If one operand of a commutative equation is a splat constant of these bits: the other operand. Else null.
const Value* beside_constant(const Node& n, uint64_t bits) {
  for (size_t i = 0; i < 2; ++i) {
    const TensorPtr& payload = n.input(i)->constant();
    if (payload && payload->size() == 1 && static_cast<uint64_t>(payload->as_int(0)) == bits) return n.input(1 - i);
  }
  return nullptr;
}

// The mantissa (b >> s), if the operand is (b >> s) | bits of 1.0 and the shift leaves only mantissa bits.
Value* mantissa_under_one(Lowering& ctx, const FloatFormat& f) {
  const Node* either = ctx.node.input(0)->def();
  if (either == nullptr || !either->is("or")) return nullptr;
  const Value* shifted = beside_constant(*either, static_cast<uint64_t>(f.bias()) << f.mantissa);
  const Node* shift = shifted != nullptr ? shifted->def() : nullptr;
  if (shift == nullptr || !shift->is("shift_right_logical") || !shift->input(1)->constant()) return nullptr;
  const TensorPtr& count = shift->input(1)->constant();
  if (count->size() != 1 || count->as_int(0) < bit_width(f.dtype) - f.mantissa || count->as_int(0) >= bit_width(f.dtype))
    return nullptr;
  return ctx.context().value(*shifted, ctx.b);
}

// Converts between types of equal width.
Value* same_width(Lowering& ctx, Value* x, DType to) {
  // f8e8m0 is the exponent field of f32. Its code 0 is half of f32's least normal number, a subnormal; its
  // code 255 is NaN.
  const FloatFormat single = FloatFormat::of(DType::kF32);
  if (x->dtype() == DType::kF8E8M0) {
    x = ctx.cast((magnitude_bits(ctx, single, ctx.cast(x, DType::kF32)) >> single.mantissa).value(), DType::kU8);
  } else if (is_float(x->dtype())) {
    FloatFormat f = FloatFormat::of(x->dtype());
    x = ctx.cast(float_bits(ctx, f, ctx.cast(x, f.wide())).value(), unsigned_of(to));
  }
  if (to == DType::kF8E8M0) {
    Word code = Word::of(ctx, x);
    Word bits = code * (uint64_t{1} << single.mantissa);
    Value* half = ctx.select(ctx.b.Equal(code.value(), code.constant(0)), code.constant(uint64_t{1} << (single.mantissa - 1)),
                             bits.value());
    half = ctx.select(ctx.b.Equal(code.value(), code.constant(255)), code.constant(single.nan()), half);
    return to_small_float(ctx, magnitude_of_bits(ctx, single, Word(ctx, half)), to, /*may_overflow=*/false);
  }
  return ctx.cast(is_float(to) ? float_of_bits(ctx, FloatFormat::of(to), Word::of(ctx, x)) : x, to);
}

// 0, w, 2w, ... in the type of the words.
Value* shifts(Lowering& ctx, DType word, int64_t count, int64_t width) {
  std::vector<std::byte> bytes(byte_size(word, static_cast<uint64_t>(count)));
  for (int64_t i = 0; i < count; ++i) encode_element(word, bytes.data(), i, static_cast<double>(i * width));
  return ctx.b.constant(Tensor::own(word, {count}, std::move(bytes)));
}

}  // namespace

std::vector<Value*> lower_bitcast_convert_type(Lowering& ctx) {
  if (ctx.in_dtype(0) == ctx.out_dtype()) return {ctx.in(0)};  // of complex numbers, too
  Value* x = ctx.operands()[0];
  DType from = x->dtype(), to = ctx.out_dtype();
  if (from == to) return {x};
  int wide = bit_width(from), narrow = bit_width(to);
  auto is_number = [](DType t) { return is_integer(t) || is_float(t); };
  if (!is_number(from) || !is_number(to)) ctx.unsupported("only integers and floats");
  if (wide == narrow) {
    if (is_integer(from) && is_integer(to)) return {ctx.cast(x, to)};
    if (ctx.b.opset() >= 26 && !is_narrow(from) && !is_narrow(to)) return {ctx.b.BitCast(x, {.to = to})};
    if (is_float(to) && to != DType::kF8E8M0) {
      FloatFormat f = FloatFormat::of(to);
      if (Value* mantissa = mantissa_under_one(ctx, f)) {
        Value* fraction = ctx.b.Mul(ctx.cast(mantissa, f.wide()), ctx.b.scalar(f.wide(), std::ldexp(1.0, -f.mantissa)));
        return {ctx.cast(ctx.b.Add(fraction, ctx.b.scalar(f.wide(), 1)), to)};
      }
    }
    return {same_width(ctx, x, to)};
  }
  if (wide > narrow) {
    Word word = Word::of(ctx, same_width(ctx, x, unsigned_of(from)));
    Value* column = ctx.unsqueeze(word.value(), std::vector{static_cast<int64_t>(ctx.in_rank(0))});
    Value* pieces = ctx.b.BitShift(column, shifts(ctx, column->dtype(), wide / narrow, narrow), {.direction = "RIGHT"});
    return {same_width(ctx, ctx.cast(pieces, unsigned_of(to)), to)};
  }
  DType word = narrow == 64 ? DType::kU64 : DType::kU32;
  Value* pieces = ctx.cast(same_width(ctx, x, unsigned_of(from)), word);
  pieces = ctx.b.BitShift(pieces, shifts(ctx, word, narrow / wide, wide), {.direction = "LEFT"});
  Value* whole = reduce(ctx, "ReduceSum", pieces, std::vector{static_cast<int64_t>(ctx.in_rank(0)) - 1});
  return {same_width(ctx, ctx.cast(whole, unsigned_of(to)), to)};
}

}  // namespace sardonyx::jax_to_onnx
