//   x ── Slice ── Slice ── y                        =>   x ── Slice ── y
//   x ── Pad ── Pad (by the same constant) ── y     =>   x ── Pad ── y
//   x ── Clip ── Clip ── y, the same with Relu      =>   x ── Clip ── y
//   x ── ReduceMax ── ReduceMax ── y, ...           =>   x ── ReduceMax ── y
//   Concat(a, Concat(b, c)), Max(a, Max(b, c))      =>   Concat(a, b, c), Max(a, b, c)
//   Concat(Split(x)), Concat of slices side by side =>   x
//   Split(Concat(a, b))                             =>   a, b
//   Expand(Expand(x, s), t)                         =>   Expand(x, t)
//
// What stops it: another user in between (unless both disappear, and except for Expand); parameters known
// only at run time; bounds that do not overlap; axes of unknown size that are cut twice, if one cut runs
// backwards or has bounds that count from the end; means of integers.
// Rounds: reductions regroup sums and products. The rules for Clip ignore NaN and -0 at a bound of 0, where
// the result depends on the runtime.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dialects/onnx/readers.h"
#include "passes/onnx/shapes/shape_target.h"
#include "passes/onnx/simplify/slices.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
using Ints = std::vector<int64_t>;
constexpr Var x{"x"}, y{"y"}, t{"t"};
constexpr size_t kMaxReaders = 16;

Value* keep_x(Rewriter&, const Match& m) { return m[x]; }

// --- slices

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;  // longer than any axis; two of these can be added

// Combines two slices of one axis of this size: `inner` first, then `outer`. The bounds are (start, end,
// step).
std::optional<std::array<int64_t, 3>> cut_twice(std::array<int64_t, 3> inner, std::array<int64_t, 3> outer, Dim size) {
  const auto [start, end, step] = inner;
  const auto [from, to, stride] = outer;
  if (size.is_int()) {
    const Piece a = piece_of(start, end, step, size.value()), b = piece_of(from, to, stride, a.count);
    if (b.count == 0) return std::array<int64_t, 3>{0, 0, 1};
    const int64_t first = a.first + b.first * a.step, by = a.step * b.step;
    const int64_t last = first + (b.count - 1) * by;
    // A backward slice to the first element needs an end before it, but -1 means the last element.
    return std::array<int64_t, 3>{first, by > 0 ? last + 1 : last > 0 ? last - 1 : -size.value() - 1, by};
  }
  // For an unknown size, forward slices add up if their bounds do not count from the end.
  if (step != 1 || stride != 1 || start < 0 || from < 0 || start > kFar || from > kFar) return std::nullopt;
  const bool to_end = end > kFar, up_to_end = to > kFar;
  if (to_end || up_to_end)
    return std::array<int64_t, 3>{start + from, to_end ? (to < 0 || up_to_end ? to : start + to) : end, 1};
  if (end < 0 || to < 0) return std::nullopt;
  return std::array<int64_t, 3>{start + from, std::min(end, start + to), 1};
}

std::optional<Bounds> merged_slices(const Node& of, const Node& before, PassContext& context) {
  auto outer = bounds_of(of, context), inner = bounds_of(before, context);
  if (!outer || !inner) return std::nullopt;
  for (size_t i = 0; i < outer->axes.size(); ++i) {
    const auto shared = std::find(inner->axes.begin(), inner->axes.end(), outer->axes[i]);
    if (shared != inner->axes.end()) {
      const auto at = static_cast<size_t>(shared - inner->axes.begin()), axis = static_cast<size_t>(*shared);
      const Type* t = before.input(0)->type();
      if (axis >= t->rank()) return std::nullopt;
      const auto both = cut_twice({inner->starts[at], inner->ends[at], inner->steps[at]},
                                  {outer->starts[i], outer->ends[i], outer->steps[i]}, t->dim(axis));
      if (!both) return std::nullopt;
      inner->starts[at] = (*both)[0], inner->ends[at] = (*both)[1], inner->steps[at] = (*both)[2];
      continue;
    }
    inner->axes.push_back(outer->axes[i]);
    inner->starts.push_back(outer->starts[i]);
    inner->ends.push_back(outer->ends[i]);
    inner->steps.push_back(outer->steps[i]);
  }
  return inner;
}

// Whether all users of the inner slice are slices that can merge with it, so that it disappears.
bool all_slices_merge(const Match& m) {
  size_t readers = 0;
  for (const Use& u : m[y]->uses()) {
    const Node& n = *u.owner;
    if (++readers > kMaxReaders || n.graph() != m.root().graph() || n.unchecked() || !n.is("Slice") ||
        n.operand_index(u) != 0 || !merged_slices(n, m.node(y), m.context()))
      return false;
  }
  return true;
}

Value* build_slice(Rewriter& b, const Match& m) {
  const Bounds s = *merged_slices(m.root(), m.node(y), m.context());
  const bool steps = std::any_of(s.steps.begin(), s.steps.end(), [](int64_t k) { return k != 1; });
  return b.Slice(m[x], b.i64s(s.starts), b.i64s(s.ends), b.i64s(s.axes), steps ? b.i64s(s.steps) : nullptr);
}

// --- pads

std::optional<Ints> pads_of(const Node& n, PassContext& context) {
  if (string_attr(n, "mode") != "constant" || n.input(3) != nullptr) return std::nullopt;
  auto pads = context.ints(n.input(1));
  if (!pads || std::any_of(pads->begin(), pads->end(), [](int64_t p) { return p < 0; })) return std::nullopt;
  return pads;
}
bool same_padding(const Match& m) {
  const Node &outer = m.root(), &inner = m.node(y);
  const auto a = pads_of(outer, m.context()), b = pads_of(inner, m.context());
  if (!a || !b) return false;
  const auto value = [&](const Node& n) { return n.input(2) != nullptr ? m.context().splat(n.input(2)) : std::optional(0.0); };
  const auto v = value(outer), w = value(inner);
  return v && w && *v == *w && std::signbit(*v) == std::signbit(*w);
}

// --- clips

constexpr double kMostExact = 1ull << 53;  // doubles hold all integers below

struct Range {
  std::optional<double> low, high;
};
// The range that a Relu or a Clip with constant bounds keeps.
std::optional<Range> range_of(const Node& n, PassContext& context) {
  if (n.is("Relu")) return Range{0.0, {}};
  Range r;
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (n.input(i) == nullptr) continue;
    const auto v = context.splat(n.input(i));
    if (!v || std::isnan(*v)) return std::nullopt;
    if (!is_float(n.result()->dtype()) && std::abs(*v) >= kMostExact) return std::nullopt;
    (i == 1 ? r.low : r.high) = v;
  }
  if (r.low && r.high && *r.low > *r.high) return std::nullopt;
  return r;
}
std::optional<Range> common_range(const Match& m) {
  auto a = range_of(m.root(), m.context()), b = range_of(m.node(y), m.context());
  if (!a || !b) return std::nullopt;
  if (b->low) a->low = a->low ? std::max(*a->low, *b->low) : *b->low;
  if (b->high) a->high = a->high ? std::min(*a->high, *b->high) : *b->high;
  if (a->low && a->high && *a->low > *a->high) return std::nullopt;
  return a;
}
Value* build_clip(Rewriter& b, const Match& m) {
  const Range r = *common_range(m);
  const DType t = m[x]->dtype();
  if (r.low == 0.0 && !r.high && is_float(t)) return b.Relu(m[x]);
  return b.Clip(m[x], r.low ? b.scalar(t, *r.low) : nullptr, r.high ? b.scalar(t, *r.high) : nullptr);
}

// --- reductions

std::optional<Ints> reduced_axes(const Match& m) {
  const Node &outer = m.root(), &inner = m.node(y);
  if (!m[x]->ranked() || !m[y]->ranked()) return std::nullopt;
  const auto keep = read::Reduce(outer).keepdims();
  if (!keep || keep != read::Reduce(inner).keepdims()) return std::nullopt;
  const size_t rank = m[x]->type()->rank();
  auto all = read::OpReader(inner, m.context().facts).given_axes(rank);
  const auto more = read::OpReader(outer, m.context().facts).given_axes(m[y]->type()->rank());
  if (!all || !more) return std::nullopt;
  Ints places;
  for (size_t i = 0; i < rank; ++i) {
    if (*keep || std::find(all->begin(), all->end(), static_cast<int64_t>(i)) == all->end())
      places.push_back(static_cast<int64_t>(i));
  }
  const Ints before = *all;
  for (int64_t a : *more) {
    const int64_t place = places[static_cast<size_t>(a)];
    if (std::find(before.begin(), before.end(), place) == before.end()) all->push_back(place);
  }
  std::sort(all->begin(), all->end());
  return all;
}
Rule reductions(std::string_view name, Numerics numerics, const PatternOp& op) {
  return {.name = name,
          .numerics = numerics,
          .match = op(sole(op(x, rest).as(y)), rest),
          .when =
              [](const Match& m) {
                if (m.root().is("ReduceMean") && !is_float(m[x]->dtype())) return false;  // each would truncate
                return reduced_axes(m).has_value();
              },
          .build =
              [](Rewriter& b, const Match& m) {
                return b.reduce(m.root().op().name, m[x], *reduced_axes(m), *read::Reduce(m.root()).keepdims());
              },
          .same_type = true};
}

// --- lists of operands

// An operand produced by the same operator that only this node uses.
Node* nested_list(const Node& n) {
  for (const Use& u : n.operands()) {
    Node* inner = u.value != nullptr ? u.value->def() : nullptr;
    if (inner == nullptr || inner->unchecked() || inner->graph() != n.graph() || &inner->op() != &n.op() ||
        !u.value->has_one_use())
      continue;
    if (!n.is("Concat")) return inner;
    const auto axis = read::Concat(n).axis();
    if (axis && axis == read::Concat(*inner).axis()) return inner;
  }
  return nullptr;
}
Value* flatten(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  const Node* inner = nested_list(n);
  std::vector<Value*> operands;
  for (const Use& u : n.operands()) {
    if (u.value->def() != inner) {
      operands.push_back(u.value);
      continue;
    }
    for (const Use& v : inner->operands()) operands.push_back(v.value);
  }
  return b.like(n, operands);
}

// The source of a Concat whose operands are all of its pieces in order; else null.
Value* restored(const Match& m) {
  const Node& n = m.root();
  const auto axis = read::Concat(n).axis();
  const Value* first = n.input(0);
  Node* piece = first != nullptr ? first->def() : nullptr;
  if (!axis || piece == nullptr || piece->unchecked()) return nullptr;
  if (piece->is("Split")) {
    if (read::Split(*piece).axis() != axis || piece->num_results() != n.num_inputs()) return nullptr;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (n.input(i) != piece->result(i)) return nullptr;
    }
    return piece->input(0);
  }
  Value* whole = nullptr;
  int64_t at = 0;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    const Node* s = n.input(i)->def();
    if (s == nullptr || !s->is("Slice") || s->unchecked()) return nullptr;
    if (i == 0) whole = s->input(0);
    const auto bounds = bounds_of(*s, m.context());
    if (!bounds || s->input(0) != whole || bounds->axes != Ints{static_cast<int64_t>(*axis)} || bounds->steps != Ints{1})
      return nullptr;
    // Slices must not overlap or count from the end.
    if (bounds->starts[0] != at || bounds->ends[0] < at) return nullptr;
    at = bounds->ends[0];
  }
  const Dim size = whole->type()->dim(*axis);
  const bool to_the_end = size.is_int() ? at >= size.value() : at >= std::numeric_limits<int32_t>::max();
  return to_the_end ? whole : nullptr;
}

// Whether the pieces of the Split are the operands of the Concat.
bool splits_as_joined(const Match& m) {
  const Node &split = m.root(), &join = m.node(y);
  const auto axis = read::Concat(join).axis();
  if (!axis || read::Split(split).axis() != axis || join.num_inputs() != split.num_results()) return false;
  for (size_t i = 0; i < join.num_inputs(); ++i) {
    const Value *part = join.input(i), *piece = split.result(i);
    if (!part->ranked() || !piece->ranked()) return false;
    if (!(part->type()->dim(*axis) == piece->type()->dim(*axis))) return false;
  }
  return true;
}

}  // namespace

Pass merge_consecutive() {
  return std::vector<Rule>{
      {.name = "slices",
       .match = Slice(Slice(x, rest).as(y), rest).since(10),
       .when = all_slices_merge,
       .build = build_slice,
       .same_type = true},
      {.name = "pads",
       .match = Pad(sole(Pad(x, rest).since(11).as(y)), rest).since(11),
       .when = same_padding,
       .build =
           [](Rewriter& b, const Match& m) {
             Ints sum = *pads_of(m.root(), b.context());
             const Ints inner = *pads_of(m.node(y), b.context());
             for (size_t i = 0; i < sum.size(); ++i) sum[i] += inner[i];
             return b.Pad(m[x], b.i64s(sum), m.root().input(2));
           },
       .same_type = true},
      {.name = "clips",
       .numerics = Numerics::kRounds,
       .match = any_of(Clip(sole(any_of(Clip(x, rest).since(11), Relu(x)).as(y)), rest).since(11),
                       Relu(sole(Clip(x, rest).since(11).as(y)))),
       .when = [](const Match& m) { return common_range(m).has_value(); },
       .build = build_clip,
       .opset = 11,
       .same_type = true},
      reductions("maxima", Numerics::kExact, ReduceMax),
      reductions("minima", Numerics::kExact, ReduceMin),
      reductions("sums", Numerics::kRounds, ReduceSum),
      reductions("means", Numerics::kRounds, ReduceMean),
      reductions("products", Numerics::kRounds, ReduceProd),
      {.name = "lists",
       .match = any_of(Concat(rest), Max(rest).since(8), Min(rest).since(8)),
       .when = [](const Match& m) { return nested_list(m.root()) != nullptr; },
       .build = flatten,
       .same_type = true},
      // Both have the same final shape, so the outer target is enough.
      {.name = "expands",
       .match = Expand(Expand(x, any), t),
       .when = [](const Match& m) { return m.root().result()->ranked(); },
       .replace = Expand(x, t)},
      {.name = "max_of_same", .match = any_of(Max(x, x), Min(x, x)), .build = keep_x},
      {.name = "pieces_joined",
       .match = Concat(rest),
       .when = [](const Match& m) { return restored(m) != nullptr; },
       .build = [](Rewriter&, const Match& m) { return restored(m); },
       .same_type = true},
      {.name = "joined_pieces",
       .match = Split(Concat(rest).as(y), rest),
       .when = splits_as_joined,
       .build_all = [](Rewriter&, const Match& m) { return operands_of(m.node(y)); },
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
