// Families whose axes come, go, are joined or cut.
//
//   kSqueeze, kUnsqueeze   any order: axes of size one stand anywhere
//   kReshape               axes that are joined or cut stay together
#include <algorithm>

#include "passes/mincut/family.h"

namespace sardonyx::layout {
namespace {

// --- Squeeze and Unsqueeze

std::optional<Ints> squeezed_axes(PassContext& context, const Node& n, size_t rank) {
  if (n.input(1) == nullptr && !has_axes_attr(n)) return std::nullopt;
  return axes_of(context, n, 1, rank);
}

bool follow_squeeze(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  const auto axes = rank ? squeezed_axes(c.context, c.n, *rank) : std::nullopt;
  return axes && drop_axes(c, *axes, 0, m);
}

void spell_squeeze(const Node& n, const Move& m, Spelling& s) {
  set_axes(n, 1, sorted(positions(m.main, *squeezed_axes(s.context, n, *rank_of(n.input(0))))), s);
}

bool follow_unsqueeze(const Change& c, Move& m) {
  const auto result = rank_of(c.n.result());
  if (!rank_of(c.n.input(0)) || !result) return false;
  const auto axes = axes_of(c.context, c.n, 1, *result);
  if (!axes) return false;
  m.results[0] = c.forward ? with_axes(c.given, *axes) : c.given;
  m.operands[0] = m.main = c.forward ? c.given : without_axes(c.given, *axes);
  return true;
}

void spell_unsqueeze(const Node& n, const Move& m, Spelling& s) {
  const size_t rank = *rank_of(n.result());
  const Layout out = m.results[0].is_as_is() ? Layout::identity(rank) : m.results[0];
  set_axes(n, 1, sorted(positions(out, *axes_of(s.context, n, 1, rank))), s);
}

// --- Reshape and Flatten

// Consecutive axes of both sides with one product.
struct Group {
  Ints in, out;
};

// Whether the one product needs more axes to become the other one.
bool goes_into(Dims& dims, Dim less, Dim more) {
  const Dim rest = dims.sub(more, less);
  return rest.is_int() ? rest.value() > 0 : dims.divide_exactly(more, less).has_value();
}

std::optional<std::vector<Group>> groups(Dims& dims, const Node& n) {
  if (!n.input(0)->ranked() || !n.result()->ranked()) return std::nullopt;
  const auto a = n.input(0)->type()->dims(), b = n.result()->type()->dims();
  std::vector<Group> all;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    Group g;
    const auto take_in = [&] { g.in.push_back(static_cast<int64_t>(i++)); };
    const auto take_out = [&] { g.out.push_back(static_cast<int64_t>(j++)); };
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      take_in(), take_out();
    } else if (j < b.size() && b[j].is(1)) {
      take_out();
    } else if (i < a.size() && a[i].is(1)) {
      take_in();
    } else {
      if (i == a.size() || j == b.size()) return std::nullopt;
      Dim pa = a[i], pb = b[j];
      take_in(), take_out();
      while (!(pa == pb)) {
        if (j < b.size() && goes_into(dims, pb, pa)) {
          pb = dims.mul(pb, b[j]), take_out();
        } else if (i < a.size()) {
          pa = dims.mul(pa, a[i]), take_in();
        } else {
          return std::nullopt;
        }
      }
    }
    all.push_back(std::move(g));
  }
  return all;
}

// The shape operand for a Reshape between the two layouts, written with at most one -1.
std::optional<Ints> target(const Node& n, const Layout& in, const Layout& out) {
  const Type* from = n.input(0)->type();
  const Type* to = n.result()->type();
  Ints shape;
  bool open = false;
  for (size_t i = 0; i < to->rank(); ++i) {
    const Dim d = to->dim(out.is_as_is() ? i : static_cast<size_t>(out.from[i]));
    if (d.is_int()) {
      if (d.value() == 0) return std::nullopt;
      shape.push_back(d.value());
    } else if (i < from->rank() && from->dim(in.is_as_is() ? i : static_cast<size_t>(in.from[i])) == d) {
      shape.push_back(0);
    } else {
      if (open) return std::nullopt;
      open = true;
      shape.push_back(-1);
    }
  }
  return shape;
}

// The layout across a Reshape: `near` axes are those of the side that is given. nullopt if it tears a group.
std::optional<Layout> across(const std::vector<Group>& groups, const Layout& given, Ints Group::* near, Ints Group::* far) {
  std::vector<const Group*> order;  // in which the given side stores them
  for (size_t i = 0; i < given.rank;) {
    const Group& g = *std::ranges::find_if(
        groups, [&](const Group& c) { return std::ranges::find(c.*near, given.from[i]) != (c.*near).end(); });
    for (int64_t axis : g.*near) {
      if (given.from[i++] != axis) return std::nullopt;
    }
    order.push_back(&g);
  }
  Ints other, alone;  // axes of the far side; those that have no counterpart
  for (const Group* g : order) other.insert(other.end(), (g->*far).begin(), (g->*far).end());
  for (const Group& g : groups) {
    if ((g.*near).empty()) alone.insert(alone.end(), (g.*far).begin(), (g.*far).end());
  }
  std::sort(alone.begin(), alone.end());
  for (int64_t axis : alone) other.insert(other.begin() + std::min<int64_t>(axis, static_cast<int64_t>(other.size())), axis);
  return other.size() <= Layout::kMaxRank ? std::optional(layout_of(other)) : std::nullopt;
}

bool follow_reshape(const Change& c, Move& m) {
  const auto known = groups(c.context.model.dims(), c.n);
  if (!known) return false;
  const auto other =
      c.forward ? across(*known, c.given, &Group::in, &Group::out) : across(*known, c.given, &Group::out, &Group::in);
  if (!other) return false;
  m.operands[0] = m.main = c.forward ? c.given : *other;
  m.results[0] = c.forward ? *other : c.given;
  return target(c.n, m.operands[0], m.results[0]).has_value();
}

void spell_reshape(const Node& n, const Move& m, Spelling& s) {
  s.operands.resize(2, nullptr);
  s.operands[1] = s.b.i64s(*target(n, m.operands[0], m.results[0]));
  s.op = "Reshape";
  s.drop_attrs = true;
}

}  // namespace

const Family kSqueeze{.follow = follow_squeeze, .spell = spell_squeeze};
const Family kUnsqueeze{.follow = follow_unsqueeze, .spell = spell_unsqueeze};
const Family kReshape{.follow = follow_reshape, .spell = spell_reshape};

}  // namespace sardonyx::layout
