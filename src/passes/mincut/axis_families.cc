// Families that name one axis, or several: these are renumbered.
//
//   kReduce           any order; axes in an operand or an attribute, or all of them
//   kArgReduce        any order
//   kAlongAxis, kTopK any order; slower where the axis is not the last
//   kCumSum           any order; the axis is an operand
//   kConcat, kSplit   any order, of all operands and results alike
//   kGather           the axes of the indices stay together
//   kGatherElements   any order, of all operands alike
//   kQuantize         any order; not in blocks
#include <algorithm>

#include "passes/mincut/family.h"

namespace sardonyx::layout {
namespace {

// --- reductions

std::optional<Ints> reduced_axes(PassContext& context, const Node& n, size_t rank) {
  if (n.input(1) == nullptr && !has_axes_attr(n)) {
    if (int_attr(n, "noop_with_empty_axes").value_or(0) != 0) return std::nullopt;
    return Layout::identity(rank).perm();
  }
  auto axes = axes_of(context, n, 1, rank);
  if (axes && axes->empty()) return std::nullopt;
  return axes;
}

bool follow_reduce(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  const auto axes = rank ? reduced_axes(c.context, c.n, *rank) : std::nullopt;
  return axes && drop_axes(c, *axes, int_attr(c.n, "keepdims"), m);
}

void spell_reduce(const Node& n, const Move& m, Spelling& s) {
  if (n.input(1) == nullptr && !has_axes_attr(n)) return;
  set_axes(n, 1, sorted(positions(m.main, *reduced_axes(s.context, n, *rank_of(n.input(0))))), s);
}

bool follow_arg_reduce(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  const auto axis = rank ? axis_in(int_attr(c.n, "axis"), *rank) : std::nullopt;
  if (!axis || !drop_axes(c, {*axis}, int_attr(c.n, "keepdims"), m)) return false;
  m.slower = along(m.main, *axis, *rank);
  return true;
}

// --- along one axis

bool follow_top_k(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  const auto axis = rank ? axis_in(int_attr(c.n, "axis"), *rank) : std::nullopt;
  if (!axis || !same(m, c.given)) return false;
  m.slower = along(c.given, *axis, *rank);
  return true;
}

// Before opset 13, Softmax flattens the axes from its axis on.
bool follow_along_axis(const Change& c, Move& m) {
  return (c.n.op().since_version >= 13 || c.n.op().name == "LpNormalization") && follow_top_k(c, m);
}

bool follow_cum_sum(const Change& c, Move& m) {
  return rank_of(c.n.input(0)) && constant_ints(c.context, c.n, 1) && same(m, c.given);
}

void spell_cum_sum(const Node& n, const Move& m, Spelling& s) {
  const auto axis = axis_in(constant_ints(s.context, n, 1)->front(), *rank_of(n.input(0)));
  const size_t at = m.main.position(static_cast<size_t>(*axis));
  s.operands[1] = s.b.scalar_int(n.input(1)->dtype(), static_cast<int64_t>(at));
}

// --- pieces

bool follow_concat(const Change& c, Move& m) {
  if (!rank_of(c.n.input(0)) || !int_attr(c.n, "axis")) return false;  // version 1 has no default
  std::fill(m.operands.begin(), m.operands.end(), c.given);
  return same(m, c.given);
}

bool follow_split(const Change& c, Move& m) { return rank_of(c.n.input(0)) && int_attr(c.n, "axis") && same(m, c.given); }

// --- indices

// The layout of the result of a Gather whose operand is stored as `given`; nullopt if it has too many axes.
std::optional<Layout> gathered(const Layout& given, int64_t axis, int64_t index_rank) {
  Ints out;
  for (const int64_t a : given.perm()) {
    if (a != axis) {
      out.push_back(a < axis ? a : a + index_rank - 1);
      continue;
    }
    for (int64_t e = 0; e < index_rank; ++e) out.push_back(axis + e);
  }
  return out.size() <= Layout::kMaxRank ? std::optional(layout_of(out)) : std::nullopt;
}

// The layout of the operand for a result stored as `given`; nullopt if it parts the axes of the indices.
std::optional<Layout> gathered_from(const Layout& given, int64_t axis, int64_t index_rank) {
  if (index_rank == 0) return with_axes(given, {axis});
  const Ints order = given.perm();
  Ints from;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t a = order[i];
    if (a < axis || a >= axis + index_rank) {
      from.push_back(a < axis ? a : a - index_rank + 1);
      continue;
    }
    if (a != axis) return std::nullopt;
    for (int64_t e = 1; e < index_rank; ++e) {
      if (++i == order.size() || order[i] != axis + e) return std::nullopt;
    }
    from.push_back(a);
  }
  return layout_of(from);
}

bool follow_gather(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0)), k = rank_of(c.n.input(1));
  if (!rank || !k) return false;
  const auto axis = axis_in(int_attr(c.n, "axis"), *rank);
  if (!axis) return false;
  const auto other = (c.forward ? gathered : gathered_from)(c.given, *axis, static_cast<int64_t>(*k));
  if (!other) return false;
  m.operands[0] = m.main = c.forward ? c.given : *other;
  m.results[0] = c.forward ? *other : c.given;
  return true;
}

bool follow_gather_elements(const Change& c, Move& m) {
  if (!rank_of(c.n.input(0))) return false;
  std::fill(m.operands.begin(), m.operands.end(), c.given);
  return same(m, c.given);
}

// --- quantization

bool follow_quantize(const Change& c, Move& m) {
  const auto scales = rank_of(c.n.input(1));
  if (!rank_of(c.n.input(0)) || !scales || c.n.attr("block_size") != nullptr) return false;
  return (*scales == 0 || int_attr(c.n, "axis")) && same(m, c.given);  // version 10 has none
}

void spell_quantize(const Node& n, const Move& m, Spelling& s) {
  if (*rank_of(n.input(1)) == 1) spell_axis(n, m, s);
}

}  // namespace

const Family kReduce{.follow = follow_reduce, .spell = spell_reduce};
const Family kArgReduce{.follow = follow_arg_reduce, .spell = spell_axis};
const Family kAlongAxis{.follow = follow_along_axis, .spell = spell_axis};
const Family kTopK{.follow = follow_top_k, .spell = spell_axis, .any_result = true};
const Family kCumSum{.follow = follow_cum_sum, .spell = spell_cum_sum};
const Family kConcat{.follow = follow_concat, .spell = spell_axis, .any_operand = true};
const Family kSplit{.follow = follow_split, .spell = spell_axis, .any_result = true};
const Family kGather{.follow = follow_gather, .spell = spell_axis};
const Family kGatherElements{.follow = follow_gather_elements, .spell = spell_axis, .any_operand = true};
const Family kQuantize{.follow = follow_quantize, .spell = spell_quantize};

}  // namespace sardonyx::layout
