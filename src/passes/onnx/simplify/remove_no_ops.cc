//   x ── Identity, Dropout, Pad by 0, Tile by 1, Transpose in order, Cast to its type ── y               =>   x
//   x ── Concat, Split, Sum, Max, Mean of one operand or result ── y                                     =>   x
//   x ── ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd over axes of size 1, or over none ── y  =>   x
//
// Dropout outside of training returns its operand; its mask must have no users. Each pad of a Pad must be
// zero: a Pad may also shift. A Clip without bounds is a no-op for integers only. Its bounds default to the
// lowest and the highest finite number, so it changes infinities (standard, Clip; onnxruntime does it).
// CastLike to a known type is a Cast, or nothing.
// What stops it: attributes that refer to those of a function's call, a mask that is used, Dropout in
// training.
#include <algorithm>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"};

Value* keep_x(Rewriter&, const Match& m) { return m[x]; }

bool all(const std::optional<std::vector<int64_t>>& list, int64_t v) {
  return list && std::all_of(list->begin(), list->end(), [&](int64_t i) { return i == v; });
}

// Whether each result reduces a single element. Excludes squares and magnitudes, whose result is not the
// element.
bool reduces_nothing(const Match& m) {
  const Node& n = m.root();
  if (int_attr(n, "noop_with_empty_axes").value_or(0) != 0 &&
      (n.input(1) == nullptr || m.context().ints(n.input(1)) == std::vector<int64_t>()))
    return true;
  const auto axes = read::Reduce(n, m.context().facts).axes();
  return axes &&
         std::all_of(axes->begin(), axes->end(), [&](int64_t a) { return m[x]->type()->dim(static_cast<size_t>(a)).is(1); });
}

}  // namespace

Pass remove_no_ops() {
  return std::vector<Rule>{
      {.name = "identity", .match = Identity(x), .build = keep_x, .same_type = true},
      {.name = "dropout",
       .match = Dropout(x, rest).since(7),
       .when =
           [](const Match& m) {
             const Value* training = m.root().input(2);
             return training == nullptr || m.context().splat(training) == 0.0 ||
                    m.refuse("whether it trains is only known at run time");
           },
       .build = keep_x,
       .same_type = true},
      {.name = "pad",
       .match = Pad(x, rest),
       .when =
           [](const Match& m) {
             const Node& n = m.root();
             return all(n.num_inputs() > 1 ? m.context().ints(n.input(1)) : ints_attr(n, "pads"), 0);
           },
       .build = keep_x,
       .same_type = true},
      {.name = "tile",
       .match = Tile(x, any),
       .when = [](const Match& m) { return all(m.context().ints(m.root().input(1)), 1); },
       .build = keep_x,
       .same_type = true},
      {.name = "transpose",
       .match = Transpose(x),
       .when =
           [](const Match& m) {
             const Attr* given = m.root().attr("perm");
             if (given == nullptr) return m[x]->ranked() && m[x]->type()->rank() <= 1;
             const auto* perm = given->get<Attr::Ints>();
             if (perm == nullptr || !m[x]->ranked()) return false;  // the perm tells the rank, which a file would lose
             for (size_t i = 0; i < perm->size(); ++i) {
               if ((*perm)[i] != static_cast<int64_t>(i)) return false;
             }
             return true;
           },
       .build = keep_x,
       .same_type = true},
      {.name = "cast_like",
       .match = CastLike(x, any),
       .when =
           [](const Match& m) {
             return m.root().result()->dtype() != DType::kUndefined && m.root().attr("saturate") == nullptr &&
                    m.root().attr("round_mode") == nullptr;
           },
       .build =
           [](Rewriter& b, const Match& m) {
             const DType to = m.root().result()->dtype();
             return m[x]->dtype() == to ? m[x] : b.op("Cast", {m[x]}, {attr("to", static_cast<int64_t>(to))});
           },
       .same_type = true},
      {.name = "clip",
       .match = Clip(x, rest).since(11),
       .when =
           [](const Match& m) {
             return m.root().input(1) == nullptr && m.root().input(2) == nullptr &&
                    (is_integer(m[x]->dtype()) || m.refuse("it clamps infinities to finite numbers"));
           },
       .build = keep_x,
       .same_type = true},
      {.name = "one_operand", .match = any_of(Concat(x), Sum(x), Max(x), Min(x), Mean(x)), .build = keep_x, .same_type = true},
      {.name = "extreme_of_one",
       .match = any_of(ReduceMax(x, rest), ReduceMin(x, rest)),
       .when = reduces_nothing,
       .build = keep_x},
      {.name = "sum_of_one",
       .numerics = Numerics::kRounds,  // some runtimes make 0 of a sum of -0 alone
       .match = any_of(ReduceSum(x, rest), ReduceMean(x, rest), ReduceProd(x, rest)),
       .when = reduces_nothing,
       .build = keep_x},
      {.name = "one_piece",
       .match = Split(x, rest),
       .when = [](const Match& m) { return m.root().num_results() == 1; },
       .build = keep_x,
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
