// select_n which case0 case1 ... caseN
//   which is bool   =>   Where(which, case1, case0)
//   which and the cases are bool, constants   =>   which, or Not(which)
//   which is i32    =>   Where(which <= 0, case0, Where(which <= 1, case1, ... caseN))      beyond the ends: the end, as XLA clamps
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_select_n(Lowering& at) {
  auto xs = operands(at);
  Value* which = xs[0];
  std::span<Value*> cases = std::span(xs).subspan(1);
  if (which->dtype() == DType::kBool && cases.size() == 2 && at.out_dtype() == DType::kBool && which->type() == at.out_type()) {
    // Truth values chosen by truth values: logic (as jnp.tril of a mask does).
    auto on_false = known_value(at, 1), on_true = known_value(at, 2);
    if (on_true == 1 && on_false == 0) return {which};
    if (on_true == 0 && on_false == 1) return {at.b.Not(which)};
  }
  // Of equal cases nothing is selected, and they may be narrower than the result.
  if (cases.size() == 2 && cases[0] == cases[1]) return {at.may_stay_narrow() ? cases[0] : at.expand(cases[0], at.out_dims())};
  if (which->dtype() == DType::kBool && cases.size() == 2) return {select(at, which, cases[1], cases[0])};
  Value* result = cases.back();
  for (size_t k = cases.size() - 1; k-- > 0;) {
    Value* here = via(at, "LessOrEqual", {which, at.b.scalar_int(which->dtype(), static_cast<int64_t>(k))});
    result = select(at, here, cases[k], result);
  }
  return {result};
}

}  // namespace sardonyx
