// round[TO_NEAREST_EVEN] x       =>   Round(x)
// round[AWAY_FROM_ZERO] x        =>   (floor|x| + (|x| - floor|x| >= 1/2)) * sign(x)
// is_finite x                    =>   |x| < inf                                        false for NaN
//
// |x| + 1/2 would round 0.49999997 up.
#include <limits>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_round(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  const Attr& method = ctx.param("rounding_method");  // an enum of jax: a number or a name
  const int64_t* number = method.get<int64_t>();
  bool to_even = number != nullptr ? *number == 1 : ctx.string_param("rounding_method").ends_with("TO_NEAREST_EVEN");
  if (to_even) return {ctx.via("Round", {x})};
  OnnxBuilder& b = ctx.b;
  return {ctx.via({"Floor", "Mul"}, x, [&](Value* v) {
    Value* size = b.Abs(v);
    Value* whole = b.Floor(size);
    Value* up = b.GreaterOrEqual(b.Sub(size, whole), ctx.like(v, 0.5));
    return b.Mul(b.Add(whole, ctx.cast(up, v->dtype())), b.Sign(v));
  })};
}

std::vector<Value*> lower_is_finite(Lowering& ctx) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      ctx.via({"Abs", "Less"}, ctx.operands()[0], [&](Value* x) { return ctx.b.Less(ctx.b.Abs(x), ctx.like(x, kInfinity)); })};
}

}  // namespace sardonyx::jax_to_onnx
