// argmax[axes, index_dtype] x, argmin   =>   Cast(ArgMax<axis, keepdims = 0>(x))
//
// The first of equal elements wins in both. In JAX the first NaN wins over every number: if an element is
// NaN, its position comes from an ArgMax over IsNaN(x).
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

// For runtimes without an ArgMax of wide integers. TopK returns equal elements in the order of their indices.
Value* first_by_top_k(Lowering& ctx, Value* x, int64_t axis, bool largest) {
  const DType wide = kernel_dtype(ctx, {"TopK"}, x->dtype());
  if (wide == DType::kUndefined) ctx.unsupported("no runtime orders this element type");
  AttrInit attrs{attr("axis", axis)};
  if (!largest) attrs.push_back(attr("largest", 0));
  Node& top = ctx.b.node("TopK", std::vector<Value*>{ctx.cast(x, wide), ctx.b.i64s({1})}, 2, std::move(attrs));
  return ctx.squeeze(top.result(1), std::vector<int64_t>{axis});
}

std::vector<Value*> index_of(Lowering& ctx, std::string_view op) {
  auto axes = ctx.ints_param("axes");
  if (axes.size() != 1) ctx.unsupported("only one axis is supported");
  OnnxBuilder& b = ctx.b;
  Value* x = ctx.operands()[0];
  if (x->dtype() == DType::kU64) x = to_ordered_i64(ctx, x);
  const DType wide = kernel_dtype(ctx, {op}, x->dtype());
  if (wide == DType::kUndefined) return {ctx.cast(first_by_top_k(ctx, x, axes[0], op == "ArgMax"), ctx.out_dtype())};
  x = ctx.cast(x, wide);
  auto along = [&](std::string_view of, Value* v) { return b.op(of, {v}, {attr("axis", axes[0]), attr("keepdims", 0)}); };
  Value* index = along(op, x);
  if (is_float(x->dtype())) {
    Value* nan = ctx.cast(b.IsNaN(x), DType::kU8);
    Value* any = ctx.cast(b.reduce("ReduceMax", nan, axes, false), DType::kBool);
    index = b.Where(any, along("ArgMax", nan), index);
  }
  return {ctx.cast(index, ctx.out_dtype())};
}

}  // namespace

std::vector<Value*> lower_argmax(Lowering& ctx) { return index_of(ctx, "ArgMax"); }
std::vector<Value*> lower_argmin(Lowering& ctx) { return index_of(ctx, "ArgMin"); }

}  // namespace sardonyx::jax_to_onnx
