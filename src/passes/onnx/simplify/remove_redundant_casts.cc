//   x: T ── Cast<to=T> ── z                      =>   x
//   x: T ── Cast<to=S> ── Cast<to=T> ── z        =>   x      if S holds every value of T
//   x: T ── Cast<to=S> ── Cast<to=U> ── z        =>   x ── Cast<to=U>   on the same condition
//
// A pair stays if the middle type rounds or wraps, because then the detour has an effect (f32 -> f16 -> f32).
// The first cast stays if it has other users.
// After jax2onnx's pass of this name, which drops every pair that returns to its first type.
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

// Whether every value of `from` is a value of `through`.
bool holds_all(DType through, DType from) {
  if (through == from) return true;
  if (from == DType::kBool) return is_integer(through) || is_float(through);
  if (is_integer(from) && is_integer(through)) {
    if (is_signed(from)) return is_signed(through) && bit_width(through) >= bit_width(from);
    return bit_width(through) >= bit_width(from) + (is_signed(through) ? 1 : 0);
  }
  const auto precision = [](DType d) {  // significant bits; 0: not one of the types with a plain exponent range
    switch (d) {
      case DType::kF64: return 53;
      case DType::kF32: return 24;
      case DType::kF16: return 11;
      case DType::kBF16: return 8;
      default: return 0;
    }
  };
  if (is_integer(from)) {
    const int bits = bit_width(from) - (is_signed(from) ? 1 : 0);
    return precision(through) >= bits;
  }
  if (from == DType::kF16) return through == DType::kF32 || through == DType::kF64;
  if (from == DType::kBF16) return through == DType::kF32 || through == DType::kF64;
  return from == DType::kF32 && through == DType::kF64;
}

}  // namespace

Pass remove_redundant_casts() {
  using namespace pattern;
  static constexpr Var x{"x"}, y{"y"};
  return std::vector<Rule>{
      {.name = "same_type",
       .match = Cast(x),
       .when = [](const Match& m) { return m[x]->dtype() != DType::kUndefined && m[x]->dtype() == m.root().result()->dtype(); },
       .build = [](Rewriter&, const Match& m) { return m[x]; },
       .same_type = true},
      {.name = "cast_pair",
       .match = Cast(Cast(x).as(y)),
       .when =
           [](const Match& m) {
             const DType from = m[x]->dtype(), through = m[y]->dtype();
             if (from == DType::kUndefined) return false;
             // The strings of the two types differ: 1.0 and True.
             if (m.root().result()->dtype() == DType::kString) return m.refuse("strings of the two types differ");
             return holds_all(through, from) || m.refuse("the middle type rounds or wraps values of the first");
           },
       .build =
           [](Rewriter& b, const Match& m) {
             Value* operands[] = {m[x]};
             return m[x]->dtype() == m.root().result()->dtype() ? m[x] : b.like(m.root(), operands);
           },
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
