// cumsum[axis, reverse] x                      =>   CumSum<reverse>(x, axis)
// cumprod, cummax, cummin, cumlogsumexp x      =>   x = op(x, x shifted by 1), by 2, by 4, ...
//
// The shifts take log2(n) steps on whole tensors (Hillis and Steele, 1986). An unknown length takes a Scan.
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Combine = std::function<Value*(Lowering&, Value*, Value*)>;

Value* by_steps(Lowering& ctx, Value* x, int64_t axis, int64_t length, bool reverse, Value* identity, const Combine& op) {
  auto rank = x->type()->rank();
  for (int64_t shift = 1; shift < length; shift *= 2) {
    std::vector<int64_t> pads(2 * rank, 0);
    pads[static_cast<size_t>(axis)] = reverse ? -shift : shift;
    pads[rank + static_cast<size_t>(axis)] = reverse ? shift : -shift;
    x = op(ctx, x, ctx.b.Pad(x, ctx.b.i64s(pads), identity));
  }
  return x;
}

Value* by_scan(Lowering& ctx, Value* x, int64_t axis, bool reverse, Value* identity, const Combine& op) {
  std::vector<Dim> slice(x->type()->dims().begin(), x->type()->dims().end());
  slice.erase(slice.begin() + axis);
  const Type* type = ctx.b.types().tensor(x->dtype(), slice);
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    Value* so_far = g.add_input({}, type);
    Value* next = g.add_input({}, type);
    Value* result = op(inside, so_far, next);
    g.add_output(*result, {}, type);
    g.add_output(*result, {}, type);
  });
  Value* start = ctx.expand(identity, slice);
  onnx_attrs::Scan attrs{.num_scan_inputs = 1, .scan_input_axes = {axis}, .scan_output_axes = {axis}};
  if (reverse) attrs.scan_input_directions = attrs.scan_output_directions = {1};
  return ctx.b.Scan({start, x}, body, attrs).result(1);
}

std::vector<Value*> cumulative(Lowering& ctx, std::initializer_list<std::string_view> ops, const Reduction& r,
                               const Combine& op) {
  Value* x = ctx.operands()[0];
  int64_t axis = ctx.int_param("axis");
  Dim length = ctx.in_dims(0)[static_cast<size_t>(axis)];
  bool reverse = ctx.bool_param("reverse", false);
  DType own = x->dtype(), wide = own == DType::kF16 ? DType::kF32 : kernel_dtype(ctx, ops, own);
  if (wide == DType::kUndefined) ctx.unsupported("ONNX has no way to compute this in " + std::string(to_string(own)));
  Value* identity = identity_element(ctx, r, wide);
  x = ctx.cast(x, wide);
  x = length.is_int() ? by_steps(ctx, x, axis, length.value(), reverse, identity, op)
                      : by_scan(ctx, x, axis, reverse, identity, op);
  return {ctx.cast(x, own)};
}

std::vector<Value*> cumulative(Lowering& ctx, std::string_view primitive) {
  const Reduction& r = *find_reduction(primitive);
  return cumulative(ctx, {"Pad", r.op}, r, [&](Lowering& inside, Value* x, Value* y) { return inside.via(r.op, {x, y}); });
}

// max + log1p(exp(-|x - y|)). The difference of equal infinities is NaN, so they are handled separately.
Value* log_add_exp(Lowering& ctx, Value* x, Value* y) {
  OnnxBuilder& b = ctx.b;
  Value* difference = b.Where(b.Equal(x, y), ctx.like(x, 0), b.Sub(x, y));
  // The sum lies in (0, 1] and is added to the larger operand: no digits are lost near 0.
  Value* more = b.Log(b.Add(b.Exp(b.Neg(b.Abs(difference))), ctx.like(x, 1)));
  return b.Add(b.Max({x, y}), more);
}

}  // namespace

std::vector<Value*> lower_cumsum(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  DType own = x->dtype(), wide = kernel_dtype(ctx, {"CumSum"}, own);
  Value* sums =
      ctx.b.CumSum(ctx.cast(x, wide), ctx.b.i64(ctx.int_param("axis")), {.reverse = ctx.bool_param("reverse", false)});
  return {ctx.cast(sums, own)};
}

std::vector<Value*> lower_cumprod(Lowering& ctx) { return cumulative(ctx, "mul"); }
std::vector<Value*> lower_cummax(Lowering& ctx) { return cumulative(ctx, "max"); }
std::vector<Value*> lower_cummin(Lowering& ctx) { return cumulative(ctx, "min"); }
std::vector<Value*> lower_cumlogsumexp(Lowering& ctx) {
  return cumulative(ctx, {"Pad", "Exp", "Log", "Where", "Max"}, *find_reduction("max"), log_add_exp);
}

}  // namespace sardonyx::jax_to_onnx
