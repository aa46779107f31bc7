// top_k[k, axis] x                                     =>   TopK<axis>(x, k), indices cast to i32
// approx_top_k[k, is_max_k, reduction_dimension] x     =>   the same; the least if is_max_k = False
//
// approx_top_k is exact, as in JAX on CPUs. In both, equal elements come in the order of their indices. The
// runtime decides where NaN goes.
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {

namespace {

std::vector<Value*> first_of_order(Lowering& ctx, Dim k, int64_t axis, bool largest) {
  Value* x = ctx.operands()[0];
  DType own = x->dtype();
  bool is_u64 = own == DType::kU64;
  DType wide = is_u64 ? DType::kI64 : kernel_dtype(ctx, {"TopK"}, own);
  Node& top =
      ctx.b.TopK(is_u64 ? to_ordered_i64(ctx, x) : ctx.cast(x, wide), ctx.shape({&k, 1}), {.axis = axis, .largest = largest});
  Value* values = is_u64 ? from_ordered_i64(ctx, top.result(0)) : ctx.cast(top.result(0), own);
  return {values, ctx.cast(top.result(1), ctx.out_dtype(1))};
}

}  // namespace

std::vector<Value*> lower_top_k(Lowering& ctx) {
  int64_t axis = ctx.find_param("axis") != nullptr ? ctx.int_param("axis") : -1;
  return first_of_order(ctx, ctx.dim_param("k"), axis, true);
}

// Without aggregate_to_topk the result may have more than k elements along the axis.
std::vector<Value*> lower_approx_top_k(Lowering& ctx) {
  int64_t axis = ctx.int_param("reduction_dimension");
  if (axis < 0) axis += static_cast<int64_t>(ctx.in_rank(0));
  return first_of_order(ctx, ctx.out_dims()[static_cast<size_t>(axis)], axis, ctx.bool_param("is_max_k"));
}

}  // namespace sardonyx::jax_to_onnx
