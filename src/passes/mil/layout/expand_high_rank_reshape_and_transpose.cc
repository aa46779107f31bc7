//   x ── reshape (rank 6 and more) ── transpose<p> ── reshape (rank 5 and less)
//     =>    x ── reshape ── transpose ── ... ── reshape      of rank 5 and less
//
// Adjacent axes that p keeps together count as one. If fewer than six are left, one reshape and one transpose
// are enough. Otherwise each step transposes (done, before, axis, behind), of rank 4, by <0,2,1,3>, which
// moves one axis to the front. All open sizes, such as the batch, must lie in one such group, which is -1 in
// the shapes. The inner reshape and the transpose must have no other user. Before that, elementwise ops of
// more than five axes, such as quantize, move behind the last reshape, and two reshapes become one. After
// coremltools' pass of this name, which requires known sizes and no ops in between.
#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr int64_t kOpen = -1;

int64_t times(int64_t a, int64_t b) { return a == kOpen || b == kOpen ? kOpen : a * b; }

// Axes i and i + 1 of the result that are also adjacent in the operand, in this order, count as one axis.
struct Groups {
  std::vector<int64_t> sizes;  // of the operand's axes, in its order
  std::vector<int64_t> perm;
};

Groups grouped(const std::vector<int64_t>& shape, const std::vector<int64_t>& perm) {
  std::vector<int64_t> first;  // for each group of the result, the operand's axis with which it begins
  std::vector<int64_t> size;
  for (size_t i = 0; i < perm.size(); ++i) {
    const int64_t n = shape[static_cast<size_t>(perm[i])];
    if (i > 0 && perm[i] == perm[i - 1] + 1) {
      size.back() = times(size.back(), n);
    } else {
      first.push_back(perm[i]);
      size.push_back(n);
    }
  }
  std::vector<size_t> order(first.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return first[a] < first[b]; });
  Groups g{.perm = std::vector<int64_t>(first.size())};
  for (size_t place = 0; place < order.size(); ++place) {
    g.sizes.push_back(size[order[place]]);
    g.perm[order[place]] = static_cast<int64_t>(place);
  }
  return g;
}

// Moves one axis after another to the front.
Value* step_by_step(Rewriter& b, Value* x, const Groups& g) {
  int64_t done = 1;
  std::vector<bool> moved(g.sizes.size(), false);
  for (int64_t axis : g.perm) {
    const auto at = static_cast<size_t>(axis);
    moved[at] = true;
    int64_t before = 1, behind = 1;
    for (size_t i = 0; i < g.sizes.size(); ++i) {
      if (moved[i]) continue;
      int64_t& side = i < at ? before : behind;
      side = times(side, g.sizes[i]);
    }
    x = b.transpose(b.reshape(x, {done, before, g.sizes[at], behind}), {.perm = {0, 2, 1, 3}});
    done = times(done, g.sizes[at]);
  }
  return x;
}

// The only operand of an elementwise op that is not a scalar constant; null if there are several, or the op
// changes the rank.
Value* data_of(const Value& v) {
  const Node* n = v.def();
  if (n == nullptr || n->num_results() != 1 || !(n->has(Trait::kElementwise) || n->has(Trait::kShapePreserving)))
    return nullptr;
  Value* data = nullptr;
  for (const Use& u : n->operands()) {
    if (u.value == nullptr) continue;
    const TensorPtr& t = u.value->constant();
    if (t != nullptr && (t->rank() == 0 || t->dtype() == DType::kString)) continue;
    if (data != nullptr || t != nullptr) return nullptr;
    data = u.value;
  }
  return data != nullptr && data->ranked() && v.ranked() && data->type()->rank() == v.type()->rank() ? data : nullptr;
}

bool is_high(const Value& v) { return v.ranked() && v.type()->rank() > 5; }

// f(x) ── op    =>    op(x) ── f, for an elementwise f.
Value* behind(Rewriter& b, const Match& found, Var inner) {
  Value* x = data_of(*found[inner]);
  return b.like(*found[inner]->def(), *x, *b.like(found.root(), *found[inner], *x));
}

}  // namespace

Pass expand_high_rank_reshape_and_transpose() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, wide{"wide"}, transposed{"transposed"};
  const auto moves = [](const Match& found) { return is_high(*found[wide]) && data_of(*found[wide]) != nullptr; };
  const auto move = [](Rewriter& b, const Match& found) { return behind(b, found, wide); };
  Rule expand{
      .name = "expand",
      .match = m::reshape(sole(m::transpose(sole(m::reshape(x)).as(wide))).as(transposed)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Type *inner = found.type(wide), *last = found.root().result()->type();
        if (inner == nullptr || !inner->ranked() || inner->rank() < 6) return nullptr;
        if (last == nullptr || !last->ranked() || last->rank() > 5) return nullptr;
        const auto perm = Transpose(found.node(transposed), b.facts()).perm();
        const auto shape = Reshape(found.root(), b.facts()).shape();
        if (!perm || !shape || perm->size() != inner->rank()) return nullptr;
        std::vector<int64_t> sizes;
        for (Dim d : inner->dims()) sizes.push_back(d.is_int() ? d.value() : kOpen);
        const Groups g = grouped(sizes, *perm);
        if (std::ranges::count(g.sizes, kOpen) > 1) return nullptr;
        Value* made =
            g.sizes.size() < 6 ? b.transpose(b.reshape(found[x], g.sizes), {.perm = g.perm}) : step_by_step(b, found[x], g);
        return b.reshape(made, *shape);
      },
  };
  return std::vector<Rule>{
      {.name = "elementwise before transpose", .match = m::transpose(sole(any).as(wide)), .when = moves, .build = move},
      {.name = "elementwise before reshape", .match = m::reshape(sole(any).as(wide)), .when = moves, .build = move},
      {.name = "reshape again",
       .match = m::reshape(sole(m::reshape(x)).as(wide)),
       .when =
           [](const Match& found) {
             const Type* last = found.root().result()->type();
             return is_high(*found[wide]) && last != nullptr && last->ranked() && last->rank() <= 5;
           },
       .build = [](Rewriter& b, const Match& found) -> Value* {
         const auto shape = Reshape(found.root(), b.facts()).shape();
         if (!shape || std::ranges::find(*shape, 0) != shape->end()) return nullptr;  // 0 copies a size of the operand
         return b.reshape(found[x], *shape);
       }},
      std::move(expand),
  };
}

}  // namespace sardonyx::mil
