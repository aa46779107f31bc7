//   x ── Identity, Dropout, Pad by 0, Tile by 1, Transpose in order, Cast to its type, Concat / Split / Sum / Max / Mean of one ── y   =>   x
//   x ── ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd over axes of size 1, or over none ── y                              =>   x
//
// A Dropout that does not train hands its operand on; its mask must have no reader. Pads of zero are asked for one by one: a Pad may also
// shift. A Clip without bounds is one of integers only: bounds default to the least and the largest finite number, so that it changes
// infinities (standard, Clip; onnxruntime does it). CastLike to a type that is known is a Cast, if anything.
// What stops it: attributes that a function takes from its call, a mask that is read, a trained Dropout.
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

// A reduction of which each result has one element to take; of squares and magnitudes it would not be the element itself.
bool reduces_nothing(const Match& m) {
  const Node& n = m.root();
  if (int_attr(n, "noop_with_empty_axes").value_or(0) != 0 &&
      (n.input(1) == nullptr || m.context().ints(n.input(1)) == std::vector<int64_t>()))
    return true;
  const auto axes = reduced_axes(n, m.context());
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
             if (perm == nullptr || !m[x]->ranked()) return false;  // the perm tells the rank: a file would lose it
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
                    (is_integer(m[x]->dtype()) || m.refuse("it takes infinities to the largest finite numbers"));
           },
       .build = keep_x,
       .same_type = true},
      {.name = "one_operand", .match = any_of(Concat(x), Sum(x), Max(x), Min(x), Mean(x)), .build = keep_x, .same_type = true},
      {.name = "extreme_of_one",
       .match = any_of(ReduceMax(x, rest), ReduceMin(x, rest)),
       .when = reduces_nothing,
       .build = keep_x},
      {.name = "sum_of_one",
       .numerics = Numerics::kRounds,  // a sum of -0 alone is 0 to some runtimes
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
