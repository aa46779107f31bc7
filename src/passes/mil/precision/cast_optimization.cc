//   x: T ── cast<T> ── y              =>    x
//   x: T ── cast<S> ── cast<U> ── y   =>    x ── cast<U>   (or x, if U is T)
//
// Two casts merge if the middle type loses neither range nor precision: i8 -> f16 -> f32 merges, f32 -> bool
// -> f16 and f32 -> f16 -> f32 do not. We are stricter than coremltools, which assumes whole numbers where an
// integer type comes first or last. These stay: f32 -> i8 -> bool and f32 -> f16 -> bool (0.5 and 1e-9 are
// true), i32 -> i8 -> bool (the last 8 bits of 256 are zero), f32 -> f16 -> i8 (2.9999 rounds up), i16 -> f16
// -> f32 and i32 -> f32 -> i32 (half precision has no 2049, single precision no 16777217). The first cast
// stays for its other users, and may be outside of the second one's block. An input that becomes a result of
// the function goes through an identity. After coremltools' pass of this name.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "passes/mil/named.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

struct Grid {
  double low, high, step;  // step: rank of the type's precision, larger is coarser
  friend bool operator==(const Grid&, const Grid&) = default;
};

std::optional<Grid> grid(DType d) {
  if (d == DType::kBool) return Grid{0, 1, 3};
  if (d == DType::kF16) return Grid{-65504, 65504, 2};
  if (d == DType::kF32) return Grid{-std::numeric_limits<float>::max(), std::numeric_limits<float>::max(), 1};
  if (!is_integer(d)) return std::nullopt;
  const int bits = bit_width(d);
  if (is_signed(d)) return Grid{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1, 3};
  return Grid{0, std::ldexp(1, bits) - 1, 3};
}

Grid meet(const Grid& a, const Grid& b) { return {std::max(a.low, b.low), std::min(a.high, b.high), std::max(a.step, b.step)}; }

// The type represents all integers up to this number.
double whole_up_to(DType d) {
  if (d == DType::kF16) return 2048;
  return d == DType::kF32 ? 16777216 : std::numeric_limits<double>::infinity();
}

// Whether casting to `middle` in between does not change the result of a cast to `last`.
bool merge(DType first, DType middle, DType last) {
  const auto from = grid(first), through = grid(middle), to = grid(last);
  if (!from || !through || !to) return false;
  const Grid kept = meet(*from, *to);
  if (meet(meet(*from, *through), *to) != kept) return false;
  const bool all_arrive = meet(*from, *through) == *from;
  if (is_float(first)) return all_arrive || (is_integer(middle) && is_integer(last));
  if (last == DType::kBool) return all_arrive || is_float(middle);
  return kept.high <= whole_up_to(middle);  // ranges are symmetric except for one number
}

// The cast that computes v, in this block or outside of it; else null.
const Node* cast_behind(const Value& v) { return v.def() != nullptr && v.def()->is("cast") ? v.def() : nullptr; }

}  // namespace

Pass cast_optimization() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, middle{"middle"};
  const auto becomes_result = [](const Match& found) {
    return found[x]->kind() == ValueKind::kInput && found.root().graph()->function() != nullptr &&
           is_graph_result(*found.root().result());
  };
  return std::vector<Rule>{
      {.name = "same_type",
       .match = m::cast(x),
       .when = [](const Match& found) { return found[x]->dtype() == found.root().result()->dtype(); },
       .build = [=](Rewriter& b, const Match& found) -> Value* {
         return becomes_result(found) ? b.identity(found[x]) : found[x];
       }},
      {.name = "pair",  // even if U is T: the other rule then removes the cast
       .match = m::cast(middle),
       .when =
           [](const Match& found) {
             const Node* inner = cast_behind(*found[middle]);
             return inner != nullptr && merge(inner->input(0)->dtype(), found[middle]->dtype(), found.root().result()->dtype());
           },
       .build =
           [](Rewriter& b, const Match& found) {
             Value* read = cast_behind(*found[middle])->input(0);
             Value* dtype = operand(found.root(), b.context(), "dtype");
             Value* made = b.cast(read, {.dtype = dtype});
             if (is_graph_result(*found.root().result()) || read->name().empty()) return made;
             return named(b, made, fmt::format("{}_to_{}", read->name().view(), dtype->constant()->string_values()[0]));
           }},
  };
}

}  // namespace sardonyx::mil
