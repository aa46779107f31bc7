// rsqrt x   =>   Reciprocal(Sqrt(x))
// cbrt x    =>   y = |x|^(1/3), one Newton step, and the sign of x
//
// Pow alone is off by several last bits where the exponent of x is large, as 1/3 is not a float. The step divides by y^2;
// where that is no number (x is 0 or infinite) the first value is exact already.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_rsqrt(Lowering& at) {
  return {via(at, {"Sqrt"}, operands(at)[0], [&](Value* x) { return at.b.Reciprocal(at.b.Sqrt(x)); }, false)};
}

std::vector<Value*> lower_cbrt(Lowering& at) {
  OnnxBuilder& b = at.b;
  return {via(at, {"Pow", "Where"}, operands(at)[0], [&](Value* x) {
    Value* a = b.Abs(x);
    Value* y = b.Pow(a, like(at, x, 1.0 / 3));
    Value* quotient = b.Div(a, b.Mul(y, y));
    Value* better = b.Add(y, b.Mul(b.Sub(quotient, y), like(at, x, 1.0 / 3)));
    return b.Mul(b.Where(b.Greater(quotient, like(at, x, 0)), better, y), b.Sign(x));
  })};
}

}  // namespace sardonyx
