// log1p x   =>   u = 1 + x;  Where(x, Where(u - 1 == x, log u, log u + (x - (u - 1)) / u), x)
//
// Adding 1 rounds x to u - 1. The second term is what the rounding lost, to first order; higher orders are
// below the last bit. If nothing was lost, the logarithm alone is exact, and -1 gives -inf and inf gives inf.
//
// The outer Where keeps the sign of -0, since programs divide by the result: without it random.binomial(p=1)
// does not terminate. x is the second branch because onnxruntime's Where returns 0 for a -0 in its first
// branch. Results of Exp are never -0 and need no Where.
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {

Value* log1p(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* one = ctx.like(x, 1);
  Value* u = b.Add(x, one);
  Value* log_u = b.Log(u);
  Value* kept = b.Sub(u, one);
  Value* lost = b.Div(b.Sub(x, kept), u);
  return b.Where(b.Equal(kept, x), log_u, b.Add(log_u, lost));
}

std::vector<Value*> lower_log1p(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  const bool is_positive = x->def() != nullptr && x->def()->is("Exp");
  return {ctx.via({"Log", "Where"}, x, [&](Value* wide) {
    Value* y = log1p(ctx, wide);
    return is_positive ? y : ctx.b.Where(ctx.cast(wide, DType::kBool), y, wide);
  })};
}

}  // namespace sardonyx::jax_to_onnx
