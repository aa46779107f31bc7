//   gather(x, i)       =>    gather(x, select(i >= 0, i, i + shape(x)[axis]))
//   gather_nd(x, i)    =>    gather_nd(x, select(i >= 0, i, i + shape(x)[:shape(i)[-1]]))
//
// From iOS 17 on these ops take no negative indices. Unsigned ones, constants without negative ones and those
// that are guarded already stay; indices of other types than i32 are cast, and so is x if `shape` does not
// take its type. After coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr int kIos17 = 8;

bool is_guarded(const Value& indices) {
  const Node* choice = indices.def();
  while (choice != nullptr && choice->is("cast")) choice = choice->input(0)->def();  // to 16 bits
  if (choice == nullptr || !choice->is("select")) return false;
  const Node *test = choice->input(0)->def(), *sum = choice->input(2)->def();
  return test != nullptr && test->is("greater_equal") && test->input(0) == choice->input(1) && sum != nullptr &&
         sum->is("add") && sum->input(0) == choice->input(1);
}

bool is_never_negative(const Value& indices) {
  if (!is_signed(indices.dtype())) return true;
  if (!indices.is_constant()) return false;
  const Tensor& t = *indices.constant();
  const auto elements = t.to_ints(t.size());
  return elements && std::ranges::none_of(*elements, [](int64_t i) { return i < 0; });
}

Value* guard(Rewriter& b, const Match& found) {
  Node& gather = found.root();
  const bool is_nd = gather.is("gather_nd");
  Value *x = operand(gather, b.context(), "x"), *indices = operand(gather, b.context(), "indices");
  if (x == nullptr || indices == nullptr || b.version() < kIos17) return nullptr;
  if (is_never_negative(*indices) || is_guarded(*indices)) return nullptr;
  std::optional<int64_t> axis;
  if (is_nd) {
    if (!indices->ranked()) return nullptr;
    axis = static_cast<int64_t>(indices->type()->rank()) - 1;
  } else {
    axis = Gather(gather, b.facts()).int_in("axis");
  }
  if (!axis) return nullptr;
  Value* wide = indices->dtype() == DType::kI32 ? indices : b.cast(indices, {.dtype = "int32"});
  const DType t = x->dtype();
  const bool has_shape = t == DType::kF16 || t == DType::kF32 || t == DType::kI32;
  Value* measured = has_shape ? x : b.cast(x, {.dtype = "bool"});
  Value* test = b.greater_equal(wide, 0);
  Value* size = b.shape(measured);
  if (is_nd) {
    Value* last = element_of(b, b.shape(wide), *axis);
    Value* count = b.expand_dims(last, {.axes = {0}});
    size = b.slice_by_size(size, {0}, count);
  } else {
    size = element_of(b, size, *axis);
  }
  Value* sum = b.add(wide, size);
  Value* chosen = b.select(test, wide, sum);
  return b.like(gather, {{"indices", chosen}});
}

}  // namespace

Pass guard_negative_gather_indices() {
  using namespace pattern;
  namespace m = pattern::mil;
  // Guarded indices have the shape of the original ones, whatever the names of its sizes.
  return std::vector<Rule>{{.name = "gather", .match = m::gather(), .build = guard, .same_type = true},
                           {.name = "gather_nd", .match = m::gather_nd(), .build = guard, .same_type = true}};
}

}  // namespace sardonyx::mil
