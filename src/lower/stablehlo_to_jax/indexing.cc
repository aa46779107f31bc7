// gather, dynamic_gather                 =>   gather[CLIP]: StableHLO clamps start indices
// scatter[body]                          =>   scatter, scatter-add, ... [FILL_OR_DROP]: updates that are not
//                                             inside the operand change nothing
// dynamic_slice, dynamic_update_slice    =>   the primitives of those names, which clamp as well
//
// JAX's index vectors are along the last axis of the indices. Other ones are moved there.
#include <algorithm>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

// The indices with the vectors along the last axis.
Value* with_vectors_last(Lowering& ctx, Value* indices, int64_t axis) {
  const auto rank = static_cast<int64_t>(indices->type()->rank());
  if (axis == rank) {
    DimList dims(indices->type()->dims().begin(), indices->type()->dims().end());
    dims.push_back(Dim::of(1));
    return ctx.reshape(indices, dims);
  }
  Ints perm;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) perm.push_back(i);
  }
  perm.push_back(axis);
  return ctx.transpose(indices, perm);
}

// Axes of the indices without that of the vectors, numbered anew.
Ints without_vectors(Ints axes, int64_t vectors) {
  for (int64_t& a : axes) a -= a > vectors ? 1 : 0;
  return axes;
}

Values gathered(Lowering& ctx, std::span<const Dim> sizes) {
  static constexpr std::string_view kNumbers = "dimension_numbers";
  const int64_t vectors = ctx.int_field(kNumbers, "index_vector_dim");
  const Ints offsets = ctx.ints_field(kNumbers, "offset_dims"), collapsed = ctx.ints_field(kNumbers, "collapsed_slice_dims"),
             batching = ctx.ints_field(kNumbers, "operand_batching_dims");
  Value* indices = with_vectors_last(ctx, ctx.in(1), vectors);
  DimList dims(ctx.out_rank());
  size_t window = 0, batch = 0;
  DimList windows;
  for (size_t a = 0; a < sizes.size(); ++a) {
    const auto axis = static_cast<int64_t>(a);
    if (std::ranges::find(collapsed, axis) == collapsed.end() && std::ranges::find(batching, axis) == batching.end())
      windows.push_back(sizes[a]);
  }
  for (size_t a = 0; a < dims.size(); ++a) {
    const bool is_window = std::ranges::find(offsets, static_cast<int64_t>(a)) != offsets.end();
    if (is_window && window < windows.size()) dims[a] = windows[window++];
    if (!is_window && batch + 1 < indices->type()->rank()) dims[a] = indices->type()->dim(batch++);
  }
  AttrDict numbers{
      {"offset_dims", offsets},
      {"collapsed_slice_dims", collapsed},
      {"start_index_map", ctx.ints_field(kNumbers, "start_index_map")},
      {"operand_batching_dims", batching},
      {"start_indices_batching_dims", without_vectors(ctx.ints_field(kNumbers, "start_indices_batching_dims"), vectors)}};
  return {ctx.make("gather", {ctx.in(0), indices}, ctx.out_type(0, dims),
                   {attr("dimension_numbers", std::move(numbers)), attr("fill_value", Attr()),
                    attr("indices_are_sorted", ctx.bool_attr("indices_are_sorted")), attr("mode", "CLIP"),
                    attr("slice_sizes", sizes_param(sizes)), attr("unique_indices", false)})};
}

}  // namespace

Values lower_gather(Lowering& ctx) {
  DimList sizes;
  for (int64_t n : ctx.ints_attr("slice_sizes")) sizes.push_back(Dim::of(n));
  return gathered(ctx, sizes);
}

Values lower_dynamic_gather(Lowering& ctx) { return gathered(ctx, ctx.sizes(2, "the size of the slices")); }

Values lower_scatter(Lowering& ctx) {
  static constexpr std::string_view kNumbers = "scatter_dimension_numbers";
  if (ctx.num_inputs() != 3) ctx.unsupported("several operands at once");
  const Graph& body = ctx.body("update_computation");
  std::string_view how = for_elements(combiner(body), ctx.in_dtype(0));
  const bool replaces = returns_second(body);
  if (how.empty() && !replaces) ctx.unsupported("a body other than one of add, multiply, maximum, minimum, and, or, subtract");
  Value *x = ctx.in(0), *updates = ctx.in(2);
  const Type* own = x->type();
  if (own->dtype() == DType::kBool && !replaces) {
    // JAX scatters bools as numbers.
    if (how == "xor") ctx.unsupported("a body that is xor of bools");
    how = how == "or" ? "max" : "min";
    x = ctx.cast(x, DType::kI32);
    updates = ctx.cast(updates, DType::kI32);
  }
  if (how == "and" || how == "or" || how == "xor") ctx.unsupported("a body of bits of integers");
  const int64_t vectors = ctx.int_field(kNumbers, "index_vector_dim");
  AttrDict numbers{
      {"update_window_dims", ctx.ints_field(kNumbers, "update_window_dims")},
      {"inserted_window_dims", ctx.ints_field(kNumbers, "inserted_window_dims")},
      {"scatter_dims_to_operand_dims", ctx.ints_field(kNumbers, "scatter_dims_to_operand_dims")},
      {"operand_batching_dims", ctx.ints_field(kNumbers, "input_batching_dims")},
      {"scatter_indices_batching_dims", without_vectors(ctx.ints_field(kNumbers, "scatter_indices_batching_dims"), vectors)}};
  const std::string primitive = replaces ? "scatter" : "scatter-" + std::string(how);
  Value* indices = with_vectors_last(ctx, ctx.in(1), vectors);
  Value* y = ctx.make(primitive, {x, indices, updates}, x->type(),
                      {attr("dimension_numbers", std::move(numbers)),
                       attr("indices_are_sorted", ctx.bool_attr("indices_are_sorted")), attr("mode", "FILL_OR_DROP"),
                       attr("unique_indices", ctx.bool_attr("unique_indices")), attr("update_consts", AttrList())});
  return {ctx.cast(y, own->dtype())};
}

Values lower_dynamic_slice(Lowering& ctx) {
  const Ints sizes = ctx.ints_attr("slice_sizes");
  return {ctx.make("dynamic_slice", ctx.operands(), ctx.out_type(), {attr("slice_sizes", sizes)})};
}

Values lower_dynamic_update_slice(Lowering& ctx) {
  return {ctx.make("dynamic_update_slice", ctx.operands(), ctx.out_type(0, ctx.in_dims(0)))};
}

}  // namespace sardonyx::stablehlo_to_jax
