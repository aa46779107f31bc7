//   Concat(Slice [n, n - 1, ..., 1](x), x)              =>   Pad<reflect>(x)     n elements before the first one
//   Concat(x, Slice [s - 2, s - 3, ..., s - 1 - n](x))  =>   Pad<reflect>(x)     n elements after the last one
//   x ── Pad<reflect> ── Pad<reflect> ── y              =>   x ── Pad<reflect> ── y
//
// JAX writes jnp.pad(x, ..., mode="reflect") this way, one side of one axis at a time.
// What stops it: an axis of unknown size s; elements with other users; a side that is padded twice, or by
// more elements than the axis has to mirror before the other side is padded; types that onnxruntime does not
// pad. Exact: elements only move.
#include <algorithm>

#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/simplify/slices.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
using Ints = std::vector<int64_t>;
constexpr Var x{"x"}, part{"part"}, inner{"inner"};

// The pads of all axes, all beginnings first; nullopt if the pieces do not mirror x.
std::optional<Ints> mirrored(const Match& m) {
  const Value& whole = *m[x];
  if (!whole.ranked() || !has_kernel(m.model(), "Pad", whole.dtype())) return std::nullopt;
  const size_t rank = whole.type()->rank();
  const auto axis = read::Concat(m.root()).axis();
  const auto cut = bounds_of(m.node(part), m.context());
  if (!axis || !cut || cut->axes != Ints{static_cast<int64_t>(*axis)}) return std::nullopt;
  const Dim size = whole.type()->dim(*axis);
  if (!size.is_int()) return std::nullopt;
  const Piece p = piece_of(cut->starts[0], cut->ends[0], cut->steps[0], size.value());
  const bool behind = m.root().input(0) == &whole;
  if (p.count == 0 || (p.count > 1 && p.step != -1) || p.first != (behind ? size.value() - 2 : p.count)) return std::nullopt;
  Ints pads(2 * rank, 0);
  pads[behind ? rank + *axis : *axis] = p.count;
  return pads;
}

std::optional<Ints> pads_of(const Node& pad, PassContext& context) {
  if (string_attr(pad, "mode") != "reflect" || pad.input(3) != nullptr) return std::nullopt;
  return context.ints(pad.input(1));
}

// The pads of both, if the outer Pad does not mirror elements that the inner one added.
std::optional<Ints> joined(const Match& m) {
  const auto first = pads_of(m.node(inner), m.context()), then = pads_of(m.root(), m.context());
  if (!m[x]->ranked() || !first || !then) return std::nullopt;
  const size_t rank = m[x]->type()->rank();
  Ints both = *first;
  for (size_t i = 0; i < then->size(); ++i) {
    if ((*then)[i] == 0) continue;
    const size_t axis = i % rank, other = i < rank ? i + rank : i - rank;
    const Dim size = m[x]->type()->dim(axis);
    const bool is_new = (*first)[i] == 0 && (*first)[other] >= 0 && (*then)[i] > 0;
    if (!is_new || ((*first)[other] > 0 && !(size.is_int() && (*then)[i] < size.value()))) return std::nullopt;
    both[i] = (*then)[i];
  }
  return both;
}

Rule of(std::string_view name, const Pattern& p, std::optional<Ints> (*pads)(const Match&)) {
  return {.name = name,
          .match = p,
          .when = [pads](const Match& m) { return pads(m).has_value(); },
          .build = [pads](Rewriter& b,
                          const Match& m) { return b.Pad(m[x], b.i64s(*pads(m)), nullptr, nullptr, {.mode = "reflect"}); },
          .opset = 13};
}

}  // namespace

Pass fuse_reflection_pad() {
  const Pattern taken = sole(Slice(x, rest).as(part));
  return std::vector<Rule>{
      of("side", any_of(Concat(taken, x), Concat(x, taken)), mirrored),
      of("sides", Pad(sole(Pad(x, rest).as(inner)), rest), joined),
  };
}

}  // namespace sardonyx::onnx
