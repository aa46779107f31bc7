// ne x y                        =>   Not(Equal(x, y));  bools: Xor(x, y)
// lt_to x y, le_to x y, eq_to   floats: as lt, le, eq, but -0 before 0 and NaN last (of either sign);
//                               other types: lt, le, eq
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_ne(Lowering& ctx) {
  auto xs = ctx.operands();
  if (ctx.in_dtype(0) == DType::kBool) return {ctx.b.Xor(xs[0], xs[1])};
  return {ctx.b.Not(ctx.via("Equal", xs))};
}

namespace {

// x < y in total order.
Value* before(Lowering& ctx, Value* x, Value* y) {
  OnnxBuilder& b = ctx.b;
  // Reciprocals distinguish -0 from 0 and agree for other equal operands.
  Value* zeros = b.And(b.Equal(x, y), b.Less(b.Reciprocal(x), b.Reciprocal(y)));
  Value* nan_last = b.And(b.Not(b.IsNaN(x)), b.IsNaN(y));
  return b.Or(b.Or(b.Less(x, y), zeros), nan_last);
}

std::vector<Value*> in_total_order(Lowering& ctx, std::string_view op, Value* (*floats)(Lowering&, Value*, Value*)) {
  auto xs = ctx.operands();
  DType t = ctx.in_dtype(0);
  if (!is_float(t)) return {ctx.via(op, xs)};
  DType wide = kernel_dtype(ctx, {"Less", "Reciprocal"}, t);
  return {floats(ctx, ctx.cast(xs[0], wide), ctx.cast(xs[1], wide))};
}

}  // namespace

std::vector<Value*> lower_lt_to(Lowering& ctx) { return in_total_order(ctx, "Less", before); }

std::vector<Value*> lower_le_to(Lowering& ctx) {
  return in_total_order(ctx, "LessOrEqual", [](Lowering& l, Value* x, Value* y) { return l.b.Not(before(l, y, x)); });
}

std::vector<Value*> lower_eq_to(Lowering& ctx) {
  return in_total_order(ctx, "Equal",
                        [](Lowering& l, Value* x, Value* y) { return l.b.Not(l.b.Or(before(l, x, y), before(l, y, x))); });
}

}  // namespace sardonyx::jax_to_onnx
