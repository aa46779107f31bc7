// shift_left x n, shift_right_logical x n, shift_right_arithmetic x n
//
// ONNX shifts unsigned integers of 8, 32 and 64 bits; signed ones travel as unsigned ones of the same bits, and u16 as u32. A shift by the
// width or more (which is undefined in C++, and so in runtimes) gives 0 in JAX, and copies of the sign bit in the
// arithmetic one. Shift counts are read as unsigned.
//
// The highest bit of a float is its sign, as jnp.signbit and jnp.copysign ask for it:
//   shift_right_* (bitcast_convert_type x) width - 1   =>   x < 0 or 1 / x < 0      -0 has it too; of NaN it is taken for 0
#include <algorithm>

#include "lower/context.h"
#include "lower/narrow.h"
#include "lower/word.h"

namespace sardonyx {
namespace {

DType signed_of(DType t) {
  switch (bit_width(t)) {
    case 8: return DType::kI8;
    case 16: return DType::kI16;
    case 32: return DType::kI32;
    default: return DType::kI64;
  }
}

// The shift of the equation, on unsigned integers; x has their type already.
Value* shift(Lowering& at, Value* x, Value* count, std::string_view direction) {
  int width = bit_width(x->dtype());
  Value* n = at.cast(count, x->dtype());
  Value* shifted = via(at, "BitShift", {x, n}, {attr("direction", direction)});
  auto known = count->constant() ? count->constant()->to_ints() : std::nullopt;
  if (known && std::ranges::all_of(*known, [&](int64_t v) { return v >= 0 && v < width; })) return shifted;
  return select(at, via(at, "Less", {n, at.b.scalar_int(n->dtype(), width)}), shifted, at.b.scalar_int(x->dtype(), 0));
}

// Whether what is shifted has its highest bit set, if it is the bits of a float and that bit alone is left; else null.
Value* sign_of_float(Lowering& at) {
  const Node* bits = at.eqn.input(0)->def();
  const TensorPtr& count = at.eqn.input(1)->constant();
  const int width = bit_width(at.out_dtype());
  if (at.b.opset() >= 26 || bits == nullptr || !bits->is("bitcast_convert_type") || count == nullptr) return nullptr;
  const Value& number = *bits->input(0);
  if (!is_float(number.dtype()) || is_narrow(number.dtype()) || bit_width(number.dtype()) != width) return nullptr;
  if (count->size() != 1 || count->as_int(0) != width - 1) return nullptr;
  Value* x = at.context().value(number, at.b);
  Value* zero = at.b.scalar(x->dtype(), 0);
  return at.b.Or(via(at, "Less", {x, zero}), via(at, "Less", {via(at, "Reciprocal", {x}), zero}));
}

std::vector<Value*> logical_shift(Lowering& at, std::string_view direction) {
  auto xs = operands(at);
  DType own = at.out_dtype();
  return {at.cast(shift(at, at.cast(xs[0], unsigned_of(own)), xs[1], direction), own)};
}

}  // namespace

std::vector<Value*> lower_shift_left(Lowering& at) { return logical_shift(at, "LEFT"); }
std::vector<Value*> lower_shift_right_logical(Lowering& at) {
  if (Value* sign = sign_of_float(at)) return {at.cast(sign, at.out_dtype())};
  return logical_shift(at, "RIGHT");
}

// For negative x: ~(~x >> n). The mask is all ones there and 0 elsewhere. The sign is the highest bit of unsigned types too.
std::vector<Value*> lower_shift_right_arithmetic(Lowering& at) {
  auto xs = operands(at);
  DType own = at.out_dtype(), bits = unsigned_of(own), with_sign = signed_of(own);
  if (Value* sign = sign_of_float(at)) return {at.cast(via(at, "Neg", {at.cast(sign, with_sign)}), own)};
  Value* x = at.cast(xs[0], with_sign);
  Value* mask = via(at, "Neg", {at.cast(via(at, "Less", {x, at.b.scalar_int(with_sign, 0)}), with_sign)});
  Value* magnitude = at.cast(bitwise(at.b, "BitwiseXor", x, mask), bits);
  Value* shifted = at.cast(shift(at, magnitude, xs[1], "RIGHT"), with_sign);
  return {at.cast(bitwise(at.b, "BitwiseXor", shifted, mask), own)};
}

}  // namespace sardonyx
