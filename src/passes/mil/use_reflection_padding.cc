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

// The largest reflection that a pad may make.
constexpr size_t kMostInputs = 1001;

// The bounds of a slice_by_index.
struct Cut {
  std::vector<int64_t> begin, end;
  std::vector<bool> from_start, to_end;
};

std::vector<bool> flags(Node& n, PassContext& context, std::string_view slot, size_t rank) {
  std::vector<bool> out(rank, false);
  const Value* v = operand(n, context, slot);
  if (v == nullptr) return out;
  for (size_t i = 0; i < rank; ++i) out[i] = v->constant()->as_int(static_cast<int64_t>(i)) != 0;
  return out;
}

bool is_constant_or_absent(const Value* v) { return v == nullptr || (v->is_constant() && !v->constant()->is_promise()); }

std::optional<Cut> cut(Node& n, PassContext& context, size_t rank) {
  for (std::string_view slot : {"begin_mask", "end_mask", "squeeze_mask", "stride"}) {
    if (!is_constant_or_absent(operand(n, context, slot))) return std::nullopt;
  }
  const InferContext at = params(n, context);
  auto begin = param_ints(at, "begin"), end = param_ints(at, "end");
  if (!begin || !end) return std::nullopt;
  if (const auto stride = param_ints(at, "stride"); stride && std::ranges::any_of(*stride, [](int64_t s) { return s != 1; }))
    return std::nullopt;
  return Cut{std::move(*begin), std::move(*end), flags(n, context, "begin_mask", rank), flags(n, context, "end_mask", rank)};
}

// Whether the slice takes all of x, except that it takes only element `place` of `axis` (from the end if
// negative).
bool takes(const Cut& c, const Type& x, size_t axis, int64_t place) {
  for (size_t i = 0; i < x.rank(); ++i) {
    if (i == axis) {
      if (c.from_start[i] || c.to_end[i] || c.end[i] - c.begin[i] != 1) return false;
      if (c.begin[i] != place && !x.dim(i).is(c.begin[i] - place)) return false;
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
        Node& concat = found.root();
        const std::vector<Value*> values = list(concat, b.context(), "values");
        if (values.size() < 3 || values.size() % 2 != 1 || values.size() > kMostInputs) return nullptr;
        const auto k = static_cast<int64_t>(values.size() / 2);
        Value* x = values[static_cast<size_t>(k)];
        const InferContext at = params(concat, b.context());
        const auto axis = rules::param_int(at, "axis");
        if (!x->ranked() || !axis) return nullptr;
        const auto rank = static_cast<int64_t>(x->type()->rank());
        const int64_t a = *axis < 0 ? *axis + rank : *axis;
        if (a < rank - 2) return nullptr;
        for (int64_t i = 0; i < 2 * k + 1; ++i) {
          if (i == k) continue;
          Node* slice = values[static_cast<size_t>(i)]->def();
          if (slice == nullptr || !slice->is("slice_by_index") || slice->unchecked() || !slice->result()->has_one_use() ||
              slice->graph() != concat.graph() || operand(*slice, b.context(), "x") != x)
            return nullptr;
          const auto c = cut(*slice, b.context(), static_cast<size_t>(rank));
          if (!c || !takes(*c, *x->type(), static_cast<size_t>(a), i < k ? k - i : k - 1 - i)) return nullptr;
        }
        const std::vector<int64_t> pad = a == rank - 1 ? std::vector<int64_t>{k, k} : std::vector<int64_t>{k, k, 0, 0};
        return b.pad(x, pad, {.mode = "reflect"});
      },
      .same_type = true,  // each slice has all of the other axes, whatever their sizes are called
  };
}

}  // namespace sardonyx::mil
