//   x ── Unsqueeze ── Transpose ── y      =>   x ── Transpose ── Unsqueeze ── y
//   x ── Transpose ── Squeeze ── y        =>   x ── Squeeze ── Transpose ── y
//   x ── Reshape(+1) ── Mul(2) ── Softmax ── Squeeze ── y     =>   x ── Mul(2) ── Softmax ── y
//
// Moves nodes that add and drop axes of size one towards each other (attention with groups of one leaves
// them, for instance). Nodes that add such axes go down through transposes. Nodes that drop them go up
// through transposes, Softmax and elementwise nodes. When the two meet, merge_reshapes removes both. A
// Reshape counts if it does nothing else. Without the axis, a transpose often becomes a no-op.
// What stops it: a transpose that a product reads and that stays one, values with another user, an axis that
// Softmax works along, elementwise nodes with a second operand that has the axis, and, except below
// transposes, a Squeeze without a matching node above.
#include <algorithm>

#include "passes/mincut/operators.h"
#include "passes/onnx/layout/elementwise_region.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"};

// How many nodes to look up for the one that adds the axes. Attention has three in between.
constexpr int kReach = 8;

Pattern reshaping(const Pattern& of) { return any_of(Reshape(of, rest).since(5), Squeeze(of, rest), Unsqueeze(of, rest)); }

// The axes of size one that `large` has and `small` lacks; nullopt if they differ in more.
std::optional<std::vector<int64_t>> unit_axes(const Value& small, const Value& large) {
  if (!small.ranked() || !large.ranked()) return std::nullopt;
  const auto a = small.type()->dims(), b = large.type()->dims();
  std::vector<int64_t> axes;
  size_t i = 0;
  for (size_t j = 0; j < b.size(); ++j) {
    if (i < a.size() && a[i] == b[j]) {
      ++i;
    } else if (b[j].is(1)) {
      axes.push_back(static_cast<int64_t>(j));
    } else {
      return std::nullopt;
    }
  }
  return i == a.size() && !axes.empty() ? std::optional(axes) : std::nullopt;
}

bool contains(std::span<const int64_t> list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

// The permutation without the axes in `gone`, renumbered.
std::vector<int64_t> without(std::span<const int64_t> perm, std::span<const int64_t> gone) {
  std::vector<int64_t> out;
  for (int64_t p : perm) {
    if (!contains(gone, p)) out.push_back(p - std::count_if(gone.begin(), gone.end(), [&](int64_t g) { return g < p; }));
  }
  return out;
}

bool is_no_op(const std::vector<int64_t>& perm) { return std::is_sorted(perm.begin(), perm.end()); }

Value* transposed(Rewriter& b, Value* v, const std::vector<int64_t>& perm) {
  return is_no_op(perm) ? v : b.Transpose(v, {.perm = perm});
}

// Whether a product reads the transpose, which swaps two axes: there it costs nothing, and move_transposes
// puts it there.
bool is_part_of_products(const Node& transpose, std::span<const int64_t> perm) {
  const size_t rank = perm.size();
  if (rank < 2) return false;
  std::vector<int64_t> axes(perm.begin(), perm.end());
  std::swap(axes[rank - 2], axes[rank - 1]);
  return std::is_sorted(axes.begin(), axes.end()) && std::ranges::all_of(transpose.result()->uses(), [](const Use& u) {
           return layout::Operators::reads_swapped(*u.owner);
         });
}

// Whether a dropped axis may pass the node: an elementwise node whose other operands have one element, or a
// Softmax.
bool lets_pass(const Node& n, std::span<const int64_t> gone) {
  if (!n.result()->ranked()) return false;
  const size_t rank = n.result()->type()->rank();
  if (n.is("Softmax") || n.is("LogSoftmax")) {
    const auto axis = read::Softmax(n).axis();
    return n.op().since_version >= 13 && axis && !contains(gone, static_cast<int64_t>(*axis));
  }
  if (!is_elementwise(n)) return false;
  size_t large = 0;
  for (const Use& u : n.operands()) {
    if (u.value == nullptr) continue;
    if (!u.value->ranked()) return false;
    const size_t r = u.value->type()->rank();
    const bool has_none = std::all_of(gone.begin(), gone.end(), [&](int64_t g) { return g < static_cast<int64_t>(rank - r); });
    large += !(has_none || is_one_element(*u.value, rank - gone.size()));
  }
  return large == 1;
}

// The operand with the shape of the result.
Value* main_operand(const Node& n) {
  for (const Use& u : n.operands()) {
    if (u.value != nullptr && u.value->ranked() && u.value->type()->rank() == n.result()->type()->rank()) return u.value;
  }
  return nullptr;
}

bool adds_unit_axes(const Node& n) {
  return (n.is("Reshape") || n.is("Unsqueeze")) && n.input(0) != nullptr && unit_axes(*n.input(0), *n.result());
}

// Whether a node above v adds the axes, behind nodes that the dropped axes may pass.
bool meets_addition(const Value* v, std::vector<int64_t> gone) {
  for (int i = 0; i < kReach && v != nullptr && v->def() != nullptr && v->has_one_use(); ++i) {
    const Node& n = *v->def();
    if (adds_unit_axes(n)) return true;
    if (n.is("Transpose")) {
      const auto perm = read::Transpose(n).perm();
      if (!perm) return false;
      for (int64_t& g : gone) g = (*perm)[static_cast<size_t>(g)];
      v = n.input(0);
    } else {
      if (!lets_pass(n, gone)) return false;
      v = main_operand(n);
    }
  }
  return false;
}

}  // namespace

Pass move_unit_axes() {
  return std::vector<Rule>{
      {.name = "added_below_transpose",
       .match = Transpose(sole(any_of(Reshape(x, rest).since(5), Unsqueeze(x, rest)).as(y))),
       .when =
           [](const Match& m) {
             const auto added = unit_axes(*m[x], *m[y]);
             const auto perm = read::Transpose(m.root()).perm();
             return added && perm && (is_no_op(without(*perm, *added)) || !is_part_of_products(m.root(), *perm));
           },
       .build =
           [](Rewriter& b, const Match& m) {
             const auto added = *unit_axes(*m[x], *m[y]);
             const auto perm = *read::Transpose(m.root()).perm();
             std::vector<int64_t> axes;
             for (size_t i = 0; i < perm.size(); ++i) {
               if (contains(added, perm[i])) axes.push_back(static_cast<int64_t>(i));
             }
             return b.unsqueeze(transposed(b, m[x], without(perm, added)), axes);
           },
       .same_type = true},
      {.name = "dropped_above_transpose",
       .match = reshaping(sole(Transpose(x).as(y))),
       .when = [](const Match& m) { return unit_axes(*m.root().result(), *m[y]) && read::Transpose(m.node(y)).perm(); },
       .build =
           [](Rewriter& b, const Match& m) {
             const auto perm = *read::Transpose(m.node(y)).perm();
             std::vector<int64_t> gone;
             const auto dropped = *unit_axes(*m.root().result(), *m[y]);
             for (int64_t axis : dropped) gone.push_back(perm[static_cast<size_t>(axis)]);
             std::sort(gone.begin(), gone.end());
             return transposed(b, b.squeeze(m[x], gone), without(perm, gone));
           },
       .same_type = true},
      {.name = "dropped_above_elementwise",
       .match = reshaping(sole(any.as(y))),
       .when =
           [](const Match& m) {
             if (m[y]->def() == nullptr) return false;
             const auto gone = unit_axes(*m.root().result(), *m[y]);
             const Node& n = *m[y]->def();
             return gone && lets_pass(n, *gone) && meets_addition(main_operand(n), *gone);
           },
       .build = [](Rewriter& b, const Match& m) -> Value* {
         const auto gone = *unit_axes(*m.root().result(), *m[y]);
         const Node& n = *m[y]->def();
         Value* from = main_operand(n);
         Value* squeezed = b.squeeze(from, gone);
         if (!is_elementwise(n)) {
           const auto at = static_cast<int64_t>(*read::Softmax(n).axis());
           const int64_t now = at - std::count_if(gone.begin(), gone.end(), [&](int64_t g) { return g < at; });
           return n.is("Softmax") ? b.Softmax(squeezed, {.axis = now}) : b.LogSoftmax(squeezed, {.axis = now});
         }
         return b.like(n, *from, *squeezed);
       },
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
