//   x ── Transpose<p> ── Reduce<axes, keepdims=1> ── Transpose<p⁻¹> ── z   =>   x ── Reduce<p[axes]> ── z
//   x ── Transpose<p> ── Reduce<axes> ── z                                 =>   x ── Reduce<p[axes]> ── z
//                                                                          if p keeps the other axes in order
//
// Reducing along axes gives the same result in every layout. Applies to all operators that reduce along axes.
// The axes must be known. In the first form the reduction must have no other user; in the second, the
// Transpose must not. A missing perm reverses the axes. Rounds: sums may add up in another order.
// After jax2onnx's pass of this name, which handles the first form for ReduceMean.
#include <algorithm>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/layout/elementwise_region.h"

namespace sardonyx::onnx {
namespace {

constexpr Var x{"x"}, t{"t"}, r{"r"};

struct Reduction {
  std::optional<std::vector<int64_t>> axes;  // of x, ascending; nullopt: all
  std::vector<bool> reduced;                 // by axis of the Transpose's result
  bool keepdims;
};

// The reduction in the layout of x; nullopt if it is not known.
std::optional<Reduction> through(const Match& m, const Node& reduce, std::span<const int64_t> p) {
  const read::Reduce op(reduce, m.context().facts);
  const auto keepdims = op.keepdims();
  const auto axes = op.axes();
  if (!keepdims || !axes) return std::nullopt;
  Reduction out{.axes = {}, .reduced = std::vector<bool>(p.size()), .keepdims = *keepdims};
  for (int64_t a : *axes) out.reduced[static_cast<size_t>(a)] = true;
  if (axes->size() == p.size()) return out;
  out.axes.emplace();
  for (int64_t a : *axes) out.axes->push_back(p[static_cast<size_t>(a)]);
  std::sort(out.axes->begin(), out.axes->end());
  return out;
}

Value* rebuild(Rewriter& b, const Match& m, const Node& reduce) {
  const auto reduction = through(m, reduce, *read::Transpose(m.node(t)).perm());
  return b.reduce(reduce.op().name, m[x], reduction->axes, reduction->keepdims);
}

// Whether the reduction of x has the same layout as that of the Transpose: kept axes stay in order, and in
// place with keepdims.
bool keeps_order(const Reduction& reduction, std::span<const int64_t> p) {
  int64_t last = -1;
  for (size_t i = 0; i < p.size(); ++i) {
    if (reduction.reduced[i]) continue;
    if (p[i] < last || (reduction.keepdims && p[i] != static_cast<int64_t>(i))) return false;
    last = p[i];
  }
  return true;
}

Pattern any_reduction(const Pattern& data) {
  using namespace pattern;
  return any_of(std::vector<Pattern>{ReduceL1(data, rest).as(r), ReduceL2(data, rest).as(r), ReduceLogSum(data, rest).as(r),
                                     ReduceLogSumExp(data, rest).as(r), ReduceMax(data, rest).as(r),
                                     ReduceMean(data, rest).as(r), ReduceMin(data, rest).as(r), ReduceProd(data, rest).as(r),
                                     ReduceSum(data, rest).as(r), ReduceSumSquare(data, rest).as(r)});
}

}  // namespace

Pass remove_redundant_transpose_reduce() {
  using namespace pattern;
  return std::vector<Rule>{
      {.name = "between_transposes",
       .numerics = Numerics::kRounds,
       .match = Transpose(sole(any_reduction(Transpose(x).as(t)))),
       .when =
           [](const Match& m) {
             const auto p = read::Transpose(m.node(t)).perm(), q = read::Transpose(m.root()).perm();
             if (!p || !q || inverse_of(*p) != *q) return false;
             return through(m, m.node(r), *p).has_value();  // the ranks are equal, so keepdims is 1
           },
       .build = [](Rewriter& b, const Match& m) { return rebuild(b, m, m.node(r)); }},
      {.name = "before_reduction",
       .numerics = Numerics::kRounds,
       .match = any_reduction(sole(Transpose(x).as(t))),
       .when =
           [](const Match& m) {
             const auto p = read::Transpose(m.node(t)).perm();
             if (!p) return false;
             const auto reduction = through(m, m.root(), *p);
             // If a Transpose follows, the other rule applies.
             const Value& y = *m.root().result();
             if (reduction && reduction->keepdims && y.has_one_use() && (*y.uses().begin()).owner->is("Transpose"))
               return false;
             return reduction && keeps_order(*reduction, *p);
           },
       .build = [](Rewriter& b, const Match& m) { return rebuild(b, m, m.root()); }},
  };
}

}  // namespace sardonyx::onnx
