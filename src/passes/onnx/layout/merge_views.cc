//   x: [B,T,H,D] ── Unsqueeze(3) ── Transpose(0,2,1,3,4) ── Reshape [B,H,T,D]
//     =>   Transpose(0,2,1,3)(x)
//   x ── Reshape [B,H,T,1,D] ── Transpose(0,2,1,3,4) ── Reshape [B,T,H*D]
//     =>   Reshape(Transpose(0,2,1,3)(x))
//   x ── Reshape [B,T,H,1,D] ── Transpose(0,2,1,3,4) ── Reshape [B,H,T,D]
//     =>   Transpose(0,2,1,3)(Reshape [B,T,H,D](x))
//   x: [B,T,K*G,D] ── Reshape [B,T,K,G,D] ── Transpose(0,2,3,1,4) ── Reshape [B,K*G,T,D]
//     =>   Transpose(0,2,1,3)(x)
//   x: [B,K,T,D] ── Reshape [B*K,T,D] ── Transpose(0,2,1) ── Reshape [B,K,D,T]
//     =>   Transpose(0,1,3,2)(x)
//   x ── Unsqueeze, Squeeze, Reshape, Transpose that move axes of size 1 only
//     =>   x, or one Reshape
//
// Merges chains of Transpose, Reshape, Squeeze and Unsqueeze in which axes of size 1 appear, move and
// disappear, as einsums leave them. The other axes only undergo one permutation.
//
// What stops it: a reshape in the chain that splits or joins axes, another user in between, no saving in
// nodes.
// Exact: elements only move.
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var v{"v"}, source{"source"}, split{"split"}, moved{"moved"};

struct Chain {
  Value* source = nullptr;
  size_t length = 0;
  Labels from, to;  // labels of the source and of the end of the chain
};

Labels numbered(const Value& x) {
  Labels labels(x.type()->rank());
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = x.type()->dim(i).is(1) ? kOne : static_cast<int>(i);
  return labels;
}

// The chain of views up to and including `end`.
Chain chain_to(Value* end, const Graph* graph) {
  Chain c;
  if (!end->ranked()) return c;
  c.to = numbered(*end);
  c.from = c.to;
  c.source = end;
  // The end may have several users: all of them use the replacement.
  Node* n = end->def();
  if (n == nullptr || !is_view(*n) || n->unchecked()) return c;
  const auto next = labels_above(*n, c.from);
  if (!next) return c;
  c.from = *next;
  c.source = n->input(0);
  c.length = 1 + climb(c.source, c.from, graph);
  return c;
}

// The permutation from the source's axes to the end's; axes of size 1 fill the gaps in order. Requires equal
// ranks.
std::vector<int64_t> permutation(const Labels& from, const Labels& to) {
  std::vector<int64_t> perm, ones;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == kOne) ones.push_back(static_cast<int64_t>(i));
  }
  size_t one = 0;
  for (int label : to) {
    if (label == kOne) {
      perm.push_back(ones[one++]);
    } else {
      perm.push_back(std::find(from.begin(), from.end(), label) - from.begin());
    }
  }
  return perm;
}

bool is_identity(std::span<const int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Replaces the chain by one node; null if it takes more.
Value* as_one(Rewriter& b, const Chain& c) {
  if (c.from.size() == c.to.size()) {
    const auto perm = permutation(c.from, c.to);
    if (is_identity(perm)) return c.source;
    return b.Transpose(c.source, {.perm = perm});
  }
  std::vector<int64_t> axes;
  const Labels& longer = c.from.size() < c.to.size() ? c.to : c.from;
  const Labels& shorter = c.from.size() < c.to.size() ? c.from : c.to;
  // Axes of size 1 that the longer one has in addition, matched as early as possible.
  size_t j = 0;
  for (size_t i = 0; i < longer.size(); ++i) {
    if (j < shorter.size() && longer[i] == shorter[j] && (longer[i] != kOne || longer.size() - i <= shorter.size() - j)) {
      ++j;
    } else if (longer[i] == kOne) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      return nullptr;
    }
  }
  return c.from.size() < c.to.size() ? b.unsqueeze(c.source, axes) : b.squeeze(c.source, axes);
}

// Whether 0 in the target of a Reshape copies an axis. In a function, the call may decide otherwise.
bool copies_zeros(const Node& reshape) { return reshape.attr("allowzero") == nullptr || int_attr(reshape, "allowzero") == 0; }

// A Reshape after such a chain uses the elements in order, so axes of size 1 in the chain do not matter.
Value* under_reshape(Rewriter& b, const Match& m) {
  Value* old = m[v];
  const Chain c = chain_to(old, m.root().graph());
  const auto target = m.context().ints(m.root().input(1));
  if (!target) return nullptr;
  // The order of the axes at the end, in terms of the source's axes. Its axes of size 1 stay last.
  std::vector<int64_t> perm;
  for (int label : c.to) {
    if (label != kOne) perm.push_back(std::find(c.from.begin(), c.from.end(), label) - c.from.begin());
  }
  for (size_t i = 0; i < c.from.size(); ++i) {
    if (c.from[i] == kOne) perm.push_back(static_cast<int64_t>(i));
  }
  const Type* from = c.source->type();
  if (!copies_zeros(m.root())) return nullptr;
  for (size_t i = 0; i < target->size(); ++i) {  // 0 copies an axis, which must still be the same one
    if ((*target)[i] != 0) continue;
    if (i >= perm.size() || !(from->dim(static_cast<size_t>(perm[i])) == old->type()->dim(i))) return nullptr;
  }
  Value* operands[] = {is_identity(perm) ? c.source : b.Transpose(c.source, {.perm = perm}), m.root().input(1)};
  return b.like(m.root(), operands);
}

// The chain starts with a Reshape that splits axes and adds some of size 1. The latter are not needed.
Value* after_reshape(Rewriter& b, const Match& m) {
  const Chain c = chain_to(m.root().result(), m.root().graph());
  const Node* first = c.source->def();
  if (first == nullptr || !first->is("Reshape") || !c.source->has_one_use() || first->graph() != m.root().graph())
    return nullptr;
  if (std::count(c.to.begin(), c.to.end(), kOne) > 0) return nullptr;
  const auto target = m.context().ints(first->input(1));
  if (!target || !copies_zeros(*first)) return nullptr;
  std::vector<int64_t> shape;
  Labels from;
  for (size_t i = 0; i < target->size(); ++i) {
    if (c.from[i] == kOne) continue;
    int64_t size = (*target)[i];
    if (size == 0 && shape.size() != i) {  // 0 copies the axis at the same position
      const Dim d = c.source->type()->dim(i);
      if (!d.is_int()) return nullptr;
      size = d.value();
    }
    shape.push_back(size);
    from.push_back(c.from[i]);
  }
  Value* operands[] = {first->input(0), b.i64s(shape)};
  Value* made = b.like(*first, operands);
  const auto perm = permutation(from, c.to);
  return is_identity(perm) ? made : b.Transpose(made, {.perm = perm});
}

// How many axes of `parts` each axis of `whole` is split into; nullopt if `parts` is not a split of `whole`.
std::optional<std::vector<size_t>> split_into(Dims& dims, std::span<const Dim> whole, std::span<const Dim> parts) {
  std::vector<size_t> counts;
  size_t next = 0;
  for (Dim d : whole) {
    const size_t first = next;
    Dim product = Dim::of(1);
    while (next < parts.size() && (next == first || !(product == d))) product = dims.mul(product, parts[next++]);
    if (next == first) return std::nullopt;  // the product is too large, and nothing is left for later axes
    counts.push_back(next - first);
  }
  return next == parts.size() ? std::optional(counts) : std::nullopt;
}

// Axes that are split, moved together and joined again need no split. Returns the permutation of the whole
// axes.
std::optional<std::vector<int64_t>> moved_together(const Match& m) {
  const Value *from = m[source], *parts = m[split], *to = m.root().result();
  const auto perm = m[moved] != nullptr ? ints_attr(m.node(moved), "perm") : std::nullopt;
  if (!perm || !from->ranked() || !parts->ranked() || !to->ranked() || !m[moved]->ranked()) return std::nullopt;
  const auto before = split_into(m.dims(), from->type()->dims(), parts->type()->dims());
  const auto after = split_into(m.dims(), to->type()->dims(), m[moved]->type()->dims());
  if (!before || !after) return std::nullopt;
  std::vector<int64_t> first, result;  // where the pieces of each axis begin
  for (size_t i = 0, at = 0; i < before->size(); at += (*before)[i++]) first.push_back(static_cast<int64_t>(at));
  size_t at = 0;
  for (size_t count : *after) {
    const auto axis = std::find(first.begin(), first.end(), (*perm)[at]);
    if (axis == first.end() || (*before)[static_cast<size_t>(axis - first.begin())] != count) return std::nullopt;
    for (size_t k = 0; k < count; ++k) {
      if ((*perm)[at + k] != *axis + static_cast<int64_t>(k)) return std::nullopt;
    }
    result.push_back(axis - first.begin());
    at += count;
  }
  return result;
}

// Axes that are joined, moved as one and split again need no join. Returns the permutation of the single
// axes.
std::optional<std::vector<int64_t>> moved_as_one(const Match& m) {
  const Value *from = m[source], *joined = m[split], *to = m.root().result();
  const auto perm = m[moved] != nullptr ? ints_attr(m.node(moved), "perm") : std::nullopt;
  if (!perm || !from->ranked() || !joined->ranked() || !to->ranked() || !m[moved]->ranked()) return std::nullopt;
  const auto before = split_into(m.dims(), joined->type()->dims(), from->type()->dims());
  const auto after = split_into(m.dims(), m[moved]->type()->dims(), to->type()->dims());
  if (!before || !after) return std::nullopt;
  std::vector<size_t> first;  // where the parts of each joined axis begin
  for (size_t i = 0, at = 0; i < before->size(); at += (*before)[i++]) first.push_back(at);
  std::vector<int64_t> result;
  for (size_t j = 0; j < perm->size(); ++j) {
    const auto axis = static_cast<size_t>((*perm)[j]);
    if ((*before)[axis] != (*after)[j]) return std::nullopt;
    for (size_t k = 0; k < (*after)[j]; ++k) result.push_back(static_cast<int64_t>(first[axis] + k));
  }
  return result;
}

std::optional<std::vector<int64_t>> moved_whole(const Match& m) {
  const auto perm = moved_together(m);
  return perm ? perm : moved_as_one(m);
}

}  // namespace

Pass merge_views() {
  const Pattern view = any_of(Transpose(any), Reshape(any, any), Squeeze(any, rest), Unsqueeze(any, rest));
  std::vector<Rule> rules;
  rules.push_back(
      {.name = "one",
       .match = view,
       .when = [](const Match& m) { return chain_to(m.root().result(), m.root().graph()).length >= 2; },
       .build = [](Rewriter& b, const Match& m) { return as_one(b, chain_to(m.root().result(), m.root().graph())); },
       .opset = 13});
  rules.push_back({.name = "after_reshape",
                   .match = view,
                   .when = [](const Match& m) { return chain_to(m.root().result(), m.root().graph()).length >= 2; },
                   .build = after_reshape,
                   .opset = 13});
  rules.push_back({.name = "before_reshape",
                   .match = Reshape(sole(v), any),
                   .when = [](const Match& m) { return chain_to(m[v], m.root().graph()).length >= 2; },
                   .build = under_reshape,
                   .opset = 13});
  rules.push_back({.name = "together",
                   .match = Reshape(sole(Transpose(sole(Reshape(source, any).as(split))).as(moved)), any),
                   .when = [](const Match& m) { return moved_whole(m).has_value(); },
                   .build =
                       [](Rewriter& b, const Match& m) {
                         const auto perm = *moved_whole(m);
                         return is_identity(perm) ? m[source] : b.Transpose(m[source], {.perm = perm});
                       }});
  return rules;
}

}  // namespace sardonyx::onnx
