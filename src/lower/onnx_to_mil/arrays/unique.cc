// Unique of all elements:
//
//   x ── argsort ── gather ── differs from the element before ── non_zero ── gather ── y
//
// Equal elements are neighbors once sorted, so that a sum over "differs from the one before" numbers the
// groups. If the result is not sorted, the groups are sorted by their first element. Each NaN is a group of
// its own; the ONNX standard does not say what it is.
#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {

std::vector<Value*> lower_Unique(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  if (ctx.node.attr("axis") != nullptr && ctx.rank(0) != 1) ctx.unsupported("rows or columns that are unique");
  Value* x = b.reshape(ctx.in(0), {-1});
  if (!ctx.takes("argsort", x->dtype())) ctx.unsupported("Core ML's argsort takes no such elements");
  const auto scatter = [&](Value* to, Value* at, Value* what, const char* mode) {
    return b.scatter(to, at, what, {.axis = 0, .mode = mode});
  };
  const auto gather = [&](Value* from, Value* at) { return b.gather(from, at, {.axis = 0}); };
  // All of shape [n].
  Value* order = b.argsort(x, {.ascending = true, .axis = 0});
  Value* sorted = gather(x, order);
  Value* places = counted(ctx, x, 0);
  Value* before = gather(sorted, b.maximum(b.sub(places, 1), 0));
  Value* begins = b.cast(b.logical_or(b.not_equal(sorted, before), b.equal(places, 0)), {.dtype = DType::kI32});
  Value* group = b.sub(b.cumsum(begins, {.axis = 0}), 1);
  Value* zeros = b.mul(places, 0);
  Value* inverse = scatter(zeros, order, group, "update");
  constexpr int32_t kBehind = 1 << 30;
  Value* first = scatter(b.add(zeros, kBehind), group, order, "min");
  Value* count = scatter(zeros, group, b.add(zeros, 1), "add");
  // One for each group.
  Value* heads = b.squeeze(b.non_zero(begins), {.axes = {1}});
  Value* groups = gather(group, heads);
  Value* y = gather(sorted, heads);
  first = gather(first, groups);
  count = gather(count, groups);
  if (ctx.int_attr("sorted", 1) == 0) {
    Value* as_found = b.argsort(first, {.ascending = true, .axis = 0});
    y = gather(y, as_found);
    count = gather(count, as_found);
    inverse = gather(scatter(b.mul(groups, 0), as_found, groups, "update"), inverse);
    first = gather(first, as_found);
  }
  std::vector<Value*> results{y, first, inverse, count};
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace sardonyx::onnx_to_mil
