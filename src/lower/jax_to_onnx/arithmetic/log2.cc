// log2 x             =>   Mul(Log(x), 1 / ln 2)    as JAX computes it
#include <numbers>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_log2(Lowering& ctx) {
  constexpr double kOneOverLn2 = std::numbers::log2e;
  return {
      ctx.via({"Log", "Mul"}, ctx.operands()[0], [&](Value* x) { return ctx.b.Mul(ctx.b.Log(x), ctx.like(x, kOneOverLn2)); })};
}

}  // namespace sardonyx::jax_to_onnx
