//   x ── Unsqueeze ── Unsqueeze ── y, also Squeeze                =>   x ── one of them ── y
//   x ── Reshape, Squeeze, Unsqueeze, Flatten ── another ── y     =>   x if y has its shape, else Reshape(x)
//
//   table ── Gather(constant ids) ── one of these ── y            =>   Gather(table, ids in another shape)
//   x ── ReduceSum, ArgMax, ... ── one of these ── y              =>   x ── ReduceSum<keepdims> ── y
//   ids ── one of these ── Gather(table, .) ── one of these ── y  =>   Gather(table, ids) if y has its shape
//
// These operators move no elements, so only the last shape matters. A constant must be able to express it for
// all sizes (constant_target). One of them that keeps the shape is removed. Behind a Gather, the ids take the
// new shape, and a constant table takes that of the other axes. A reduction absorbs a view that adds or drops
// exactly the reduced axes.
// What stops it: a shape known only at run time; another user of the value in between, unless both views
// disappear; behind a Gather, a table with other users, or many ids with other users (the file would hold
// them twice).
#include <algorithm>
#include <functional>
#include <numeric>

#include "dialects/onnx/readers.h"
#include "passes/onnx/shapes/shape_target.h"
#include "passes/onnx/simplify/slices.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, t{"t"};
constexpr size_t kMaxReaders = 64, kSmallBytes = 64;

Pattern reshaping(const Pattern& of) {
  return any_of(Reshape(of, rest).since(5), Squeeze(of, rest), Unsqueeze(of, rest), Flatten(of));
}

bool same_type(const Match& m) { return m[x]->ranked() && Types::equal(m[x]->type(), m.root().result()->type()); }

struct Pair {
  std::vector<int64_t> inner, outer;
  size_t rank = 0;  // of the value with all axes
};
// The axes of two consecutive Squeezes or Unsqueezes.
std::optional<Pair> axes_of_pair(const Match& m) {
  const Value& middle = *m[y];
  const Value* whole = m.root().is("Squeeze") ? m[x] : m.root().result();
  if (!middle.ranked() || !whole->ranked()) return std::nullopt;
  const bool squeeze = m.root().is("Squeeze");
  const read::OpReader inner(*middle.def(), m.context().facts), outer(m.root(), m.context().facts);
  const auto of_middle = (squeeze ? outer : inner).given_axes(middle.type()->rank());
  const auto of_whole = (squeeze ? inner : outer).given_axes(whole->type()->rank());
  if (!of_middle || !of_whole) return std::nullopt;
  return Pair{*of_middle, *of_whole, whole->type()->rank()};
}

// The axes of the combined node: the outer ones, and the inner ones renumbered for the larger value.
std::vector<int64_t> merged(const Pair& p) {
  std::vector<int64_t> kept, all = p.outer;
  for (size_t i = 0; i < p.rank; ++i) {
    if (std::find(p.outer.begin(), p.outer.end(), static_cast<int64_t>(i)) == p.outer.end())
      kept.push_back(static_cast<int64_t>(i));
  }
  for (int64_t a : p.inner) all.push_back(kept[static_cast<size_t>(a)]);
  std::sort(all.begin(), all.end());
  return all;
}

// --- behind a Gather

// The operand shapes and axis for which a Gather gives the wanted shape directly.
struct Gathered {
  std::vector<int64_t> ids;
  std::optional<std::vector<int64_t>> table;  // unchanged if nullopt
  size_t axis = 0;
};

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::optional<std::vector<int64_t>> known_sizes(std::span<const Dim> dims) {
  std::vector<int64_t> sizes;
  for (Dim d : dims) {
    if (!d.is_int() || d.value() < 1) return std::nullopt;
    sizes.push_back(d.value());
  }
  return sizes;
}

// Only the ids change their shape.
std::optional<Gathered> with_other_ids(std::span<const Dim> table, std::span<const Dim> to, size_t axis, int64_t ids) {
  const size_t after = table.size() - axis - 1;
  if (to.size() < axis + after || !std::equal(to.begin(), to.begin() + static_cast<ptrdiff_t>(axis), table.begin()) ||
      !std::equal(to.end() - static_cast<ptrdiff_t>(after), to.end(), table.end() - static_cast<ptrdiff_t>(after)))
    return std::nullopt;
  const auto middle = known_sizes(to.subspan(axis, to.size() - axis - after));
  if (!middle || product(*middle) != ids) return std::nullopt;
  return Gathered{*middle, {}, axis};
}

// A constant table changes its shape too.
std::optional<Gathered> with_other_table(std::span<const Dim> table, std::span<const Dim> to, size_t axis, int64_t ids) {
  const auto from = known_sizes(table), sizes = known_sizes(to);
  if (!from || !sizes) return std::nullopt;
  const std::span<const int64_t> all(*from), out(*sizes);
  const int64_t before = product(all.first(axis));
  size_t i = 0, j = 0;
  for (int64_t n = 1; n != before && i < out.size();) n *= out[i++];
  if (product(out.first(i)) != before) return std::nullopt;
  while (i < out.size() && out[i] == 1) ++i;  // ones belong to the table, so that fewer ids are reshaped
  for (j = i; product(out.subspan(i, j - i)) != ids && j < out.size();) ++j;
  if (product(out.subspan(i, j - i)) != ids) return std::nullopt;
  std::vector<int64_t> shape(out.begin(), out.begin() + static_cast<ptrdiff_t>(i));
  shape.push_back(all[axis]);
  shape.insert(shape.end(), out.begin() + static_cast<ptrdiff_t>(j), out.end());
  return Gathered{{out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(j)}, shape, i};
}

// Whether all users of the ids are such pairs that end in the same type, so that the ids can take one new
// shape.
bool readers_agree(const Value& ids, const Type* to) {
  size_t readers = 0;
  for (const Use& u : ids.uses()) {
    const Value* found = u.owner->num_results() == 1 ? u.owner->result() : nullptr;
    if (++readers > kMaxReaders || found == nullptr || !u.owner->is("Gather") || !found->has_one_use()) return false;
    const Node& next = *found->uses().begin()->owner;
    if (next.num_results() != 1 || !Types::equal(next.result()->type(), to)) return false;
  }
  return true;
}

std::optional<Gathered> gathered(const Match& m) {
  const Node& gather = m.node(y);
  const Value *table = m[x], *ids = m[t], *end = m.root().result();
  if (!table->ranked() || !end->ranked() || ids->type() == nullptr) return std::nullopt;
  const auto axis = read::Gather(gather).axis();
  if (!axis) return std::nullopt;
  const TensorPtr& list = ids->constant();
  const auto from = table->type()->dims(), to = end->type()->dims();
  auto found = with_other_ids(from, to, *axis, list->size());
  if (!found && table->is_constant() && table->has_one_use()) found = with_other_table(from, to, *axis, list->size());
  if (!found) return std::nullopt;
  const bool same_ids = std::equal(found->ids.begin(), found->ids.end(), list->shape().begin(), list->shape().end());
  if (!same_ids && list->byte_size() > kSmallBytes && !ids->has_one_use() && !readers_agree(*ids, end->type())) {
    m.refuse("the ids have other users");
    return std::nullopt;
  }
  return found;
}

Value* build_gather(Rewriter& b, const Match& m) {
  const Gathered g = *gathered(m);
  const auto shaped = [&](Value* v, const std::vector<int64_t>& shape) {
    return b.constant(v->constant()->reshaped(shape), v->name().view());
  };
  return b.Gather(g.table ? shaped(m[x], *g.table) : m[x], shaped(m[t], g.ids), {.axis = static_cast<int64_t>(g.axis)});
}

// --- behind a reduction

Pattern reduction(const Pattern& of) {
  return any_of(ReduceSum(of, rest), ReduceMean(of, rest), ReduceMax(of, rest), ReduceMin(of, rest), ReduceProd(of, rest),
                ReduceL1(of, rest), ReduceL2(of, rest), ReduceLogSum(of, rest), ReduceLogSumExp(of, rest),
                ReduceSumSquare(of, rest), ArgMax(of), ArgMin(of));
}

// Whether the ranks fit. The driver compares the sizes.
bool keeps_otherwise(const Match& m) {
  const Value &whole = *m[x], &reduced = *m[y], &z = *m.root().result();
  const auto keep = int_attr(*reduced.def(), "keepdims");
  if (!keep || !whole.ranked() || !reduced.ranked() || !z.ranked()) return false;
  return *keep == 0 ? z.type()->rank() == whole.type()->rank() : z.type()->rank() < whole.type()->rank();
}

Value* build_reduction(Rewriter& b, const Match& m) {
  const Node& n = *m[y]->def();
  AttrInit attrs = attrs_of(n, {"keepdims"});
  if (*int_attr(n, "keepdims") != 0) attrs.push_back(attr("keepdims", 0));
  return b.op(n.op().name, operands_of(n), attrs);
}

// Whether the last shape is that of a Gather by the ids before their reshape.
bool gives_result_of_plain_ids(const Match& m) {
  const Value *table = m[x], *ids = m[t], *end = m.root().result();
  if (!table->ranked() || !ids->ranked() || !end->ranked()) return false;
  const auto axis = read::Gather(m.node(y)).axis();
  if (!axis) return false;
  const auto at = static_cast<ptrdiff_t>(*axis);
  const auto of_table = table->type()->dims(), of_ids = ids->type()->dims();
  std::vector<Dim> dims(of_table.begin(), of_table.begin() + at);
  dims.insert(dims.end(), of_ids.begin(), of_ids.end());
  dims.insert(dims.end(), of_table.begin() + at + 1, of_table.end());
  return std::ranges::equal(dims, end->type()->dims());
}

bool has_pair(const Match& m) { return axes_of_pair(m).has_value(); }

}  // namespace

Pass merge_reshapes() {
  return std::vector<Rule>{
      {.name = "no_change", .match = reshaping(x), .when = same_type, .build = [](Rewriter&, const Match& m) { return m[x]; }},
      {.name = "there_and_back",
       .match = reshaping(reshaping(x)),
       .when = same_type,
       .build = [](Rewriter&, const Match& m) { return m[x]; }},
      {.name = "unsqueezes",
       .match = Unsqueeze(sole(Unsqueeze(x, rest).as(y)), rest),
       .when = has_pair,
       .build = [](Rewriter& b, const Match& m) { return b.unsqueeze(m[x], merged(*axes_of_pair(m))); },
       .same_type = true},
      {.name = "squeezes",
       .match = Squeeze(sole(Squeeze(x, rest).as(y)), rest),
       .when = has_pair,
       .build = [](Rewriter& b, const Match& m) { return b.squeeze(m[x], merged(*axes_of_pair(m))); },
       .same_type = true},
      {.name = "reshapes",
       .match = reshaping(sole(reshaping(x))),
       .when =
           [](const Match& m) {
             const Value& z = *m.root().result();
             return z.ranked() &&
                    (constant_target(*m[x], *z.type(), m.dims()) || m.refuse("the shape is only known at run time"));
           },
       .build =
           [](Rewriter& b, const Match& m) {
             return b.op("Reshape", {m[x], b.i64s(*constant_target(*m[x], *m.root().result()->type(), b.dims()))});
           },
       .opset = 5,
       .same_type = true},
      {.name = "gathers",
       .match = reshaping(sole(Gather(x, constant.as(t)).as(y))),
       .when = [](const Match& m) { return gathered(m).has_value(); },
       .build = build_gather,
       .same_type = true},
      {.name = "reductions", .match = reshaping(sole(reduction(x).as(y))), .when = keeps_otherwise, .build = build_reduction},
      {.name = "ids",
       .match = reshaping(sole(Gather(x, reshaping(t)).as(y))),
       .when = gives_result_of_plain_ids,
       .build = [](Rewriter& b, const Match& m) { return b.Gather(m[x], m[t], {.axis = *int_attr(m.node(y), "axis")}); },
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
