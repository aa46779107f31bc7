//   x ── Unsqueeze ── Unsqueeze ── y, the same for Squeeze                        =>   x ── one of them ── y
//   x ── Reshape, Squeeze, Unsqueeze, Flatten ── another one of these ── y        =>   x, if y has its shape; else x ── Reshape ── y
//
// None of them moves an element, so that only the last shape counts. The shape must be one that a constant can say for all sizes
// (constant_target). What stops it: a shape that is only known at run time, another reader of the value between (unless both go).
// One of these that does not change the shape goes by itself.
#include <algorithm>

#include "passes/onnx/shape_target.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"};

Pattern reshaping(const Pattern& of) {
  return any_of(Reshape(of, rest).since(5), Squeeze(of, rest), Unsqueeze(of, rest), Flatten(of));
}

bool same_type(const Match& m) { return m[x]->ranked() && Types::equal(m[x]->type(), m.root().result()->type()); }

struct Pair {
  std::vector<int64_t> inner, outer;
  size_t rank = 0;  // of the value with all axes
};
// Axes of two Squeezes or Unsqueezes in a row.
std::optional<Pair> axes_of_pair(const Match& m) {
  const Value& middle = *m[y];
  const Value* whole = m.root().is("Squeeze") ? m[x] : m.root().result();
  if (!middle.ranked() || !whole->ranked()) return std::nullopt;
  const bool squeeze = m.root().is("Squeeze");
  const auto of_middle = axes_of(squeeze ? m.root() : *middle.def(), m.context(), middle.type()->rank());
  const auto of_whole = axes_of(squeeze ? *middle.def() : m.root(), m.context(), whole->type()->rank());
  if (!of_middle || !of_whole) return std::nullopt;
  return Pair{*of_middle, *of_whole, whole->type()->rank()};
}

// The axes of the whole: its own, and those of the middle at the places where they stand there.
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
  };
}

}  // namespace sardonyx::onnx
