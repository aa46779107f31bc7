#include "lower/special.h"

namespace sardonyx {

Value* polynomial(Lowering& at, Value* x, std::initializer_list<double> c) {
  auto next = std::rbegin(c);
  Value* sum = like(at, x, *next);
  for (++next; next != std::rend(c); ++next) sum = at.b.Add(at.b.Mul(sum, x), like(at, x, *next));
  return sum;
}

// 1/x tells -0 from 0, x tells the rest (1/x would lose -inf, whose reciprocal is -0).
Value* sign_bit(Lowering& at, Value* x) {
  Value* zero = like(at, x, 0);
  return at.b.Or(at.b.Less(x, zero), at.b.Less(at.b.Reciprocal(x), zero));
}

}  // namespace sardonyx
