//   y ── Sqrt ── Reciprocal ──┐                  y ── Sqrt ──┐
//                        x ── Mul ── z    =>            x ── Div ── z
//
// Saves a node and a rounding. The reciprocal must have no other user, or both would be computed. Also
// matches a constant numerator over the root, Div(1, Sqrt(y)), instead of the reciprocal.
// After jax2onnx's pass of this name.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass rewrite_mul_rsqrt_as_div() {
  using namespace pattern;
  static constexpr Var x{"x"}, s{"s"};
  const Pattern root = Sqrt(any).as(s);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = Mul(x, sole(any_of(Reciprocal(root), Div(splat(1), root)))),
      .replace = Div(x, s),
  };
}

}  // namespace sardonyx::onnx
