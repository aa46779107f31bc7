//        ┌── slice [k : k+1] ... slice [1 : 2] ──────────┐
//   x ───┼───────────────────────────────────────── concat<a> ── y    =>    x ── pad<reflect, k before and k after along a> ── y
//        └── slice [-2 : -1] ... slice [-1-k : -k] ──────┘
//
// Along one of the last two axes. Each slice takes one element along a and all of every other axis, in this
// order, and has no other user; coremltools' pass of this name takes the axis that the first slice cuts, and
// ignores the other slices and the concat.
#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// Concats with more operands stay.
constexpr size_t kMostInputs = 1001;

// The bounds of a slice_by_index.
struct Cut {
  std::vector<int64_t> begin, end;
  std::vector<bool> from_start, to_end;
};

std::optional<Cut> cut(const SliceByIndex& slice) {
  auto begin = slice.begin(), end = slice.end();
  auto from_start = slice.begin_mask(), to_end = slice.end_mask();
  const auto stride = slice.stride();
  if (!begin || !end || !from_start || !to_end || !slice.squeeze_mask()) return std::nullopt;
  if (!stride || std::ranges::any_of(*stride, [](int64_t s) { return s != 1; })) return std::nullopt;
  return Cut{std::move(*begin), std::move(*end), std::move(*from_start), std::move(*to_end)};
}

// Whether the slice takes all of x, except that along `axis` it takes only element `index` (from the end if
// negative).
bool takes(const Cut& c, const Type& x, size_t axis, int64_t index) {
  for (size_t i = 0; i < x.rank(); ++i) {
    if (i == axis) {
      if (c.from_start[i] || c.to_end[i] || c.end[i] - c.begin[i] != 1) return false;
      if (c.begin[i] != index && !x.dim(i).is(c.begin[i] - index)) return false;
    } else if ((!c.from_start[i] && c.begin[i] != 0) || (!c.to_end[i] && !x.dim(i).is(c.end[i]))) {
      return false;
    }
  }
  return true;
}

}  // namespace

Pass use_reflection_padding() {
  using namespace pattern;
  namespace m = pattern::mil;
  return Rule{
      .match = m::concat(),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Concat concat(found.root(), b.facts());
        const std::vector<Value*> values = concat.values();
        if (values.size() < 3 || values.size() % 2 != 1 || values.size() > kMostInputs) return nullptr;
        const auto k = static_cast<int64_t>(values.size() / 2);
        Value* x = values[static_cast<size_t>(k)];
        const auto axis = concat.axis();
        if (!x->ranked() || !axis) return nullptr;
        const size_t rank = x->type()->rank();
        if (*axis + 2 < rank) return nullptr;
        for (int64_t i = 0; i < 2 * k + 1; ++i) {
          if (i == k) continue;
          const Value* piece = values[static_cast<size_t>(i)];
          const auto slice = SliceByIndex::of(piece->def(), b.facts());
          if (!slice || !piece->has_one_use() || piece->graph() != found.root().graph() || slice->x() != x) return nullptr;
          const auto c = cut(*slice);
          if (!c || !takes(*c, *x->type(), *axis, i < k ? k - i : k - 1 - i)) return nullptr;
        }
        const std::vector<int64_t> pad = *axis == rank - 1 ? std::vector<int64_t>{k, k} : std::vector<int64_t>{k, k, 0, 0};
        return b.pad(x, pad, {.mode = "reflect"});
      },
      .same_type = true,  // each slice has all of the other axes, whatever the names of their sizes
  };
}

}  // namespace sardonyx::mil
