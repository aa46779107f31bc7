// expm1 x   =>   (exp(x) + 1) * tanh(x / 2)
//
// The identity tanh(x/2) = (e^x - 1) / (e^x + 1). No cancellation near 0, and right at both infinities.
#include "lower/special.h"

namespace sardonyx {

Value* expm1(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  return b.Mul(b.Add(b.Exp(x), like(at, x, 1)), b.Tanh(b.Mul(x, like(at, x, 0.5))));
}

std::vector<Value*> lower_expm1(Lowering& at) {
  return {via(at, {"Exp", "Tanh"}, operands(at)[0], [&](Value* x) { return expm1(at, x); })};
}

}  // namespace sardonyx
