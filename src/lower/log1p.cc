// log1p x   =>   u = 1 + x;  Where(u - 1 == x, log u, log u + (x - (u - 1)) / u)
//
// Adding 1 rounds x to u - 1; the second term is what the rounding lost, to first order (higher ones are below the last bit).
// Where nothing was lost the logarithm stands alone, so that -1 gives -inf and inf gives inf.
#include "lower/special.h"

namespace sardonyx {

Value* log1p(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* one = like(at, x, 1);
  Value* u = b.Add(x, one);
  Value* log_u = b.Log(u);
  Value* kept = b.Sub(u, one);
  Value* lost = b.Div(b.Sub(x, kept), u);
  return b.Where(b.Equal(kept, x), log_u, b.Add(log_u, lost));
}

std::vector<Value*> lower_log1p(Lowering& at) {
  return {via(at, {"Log", "Where"}, operands(at)[0], [&](Value* x) { return log1p(at, x); })};
}

}  // namespace sardonyx
