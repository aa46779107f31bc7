// select_n which case0 case1 ... caseN
//   which is bool   =>   Where(which, case1, case0)
//   which and the cases are bool, constants   =>   which, or Not(which)
//   which is i32    =>   Where(which <= 0, case0, Where(which <= 1, case1, ... caseN)), which clamps like XLA
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_select_n(Lowering& ctx) {
  auto xs = ctx.operands();
  Value* which = xs[0];
  std::span<Value*> cases = std::span(xs).subspan(1);
  if (which->dtype() == DType::kBool && cases.size() == 2 && ctx.out_dtype() == DType::kBool &&
      which->type() == ctx.out_type()) {
    // Constant bools selected by bools become logic, as in jnp.tril of a mask.
    auto on_false = ctx.splat_value(1), on_true = ctx.splat_value(2);
    if (on_true == 1 && on_false == 0) return {which};
    if (on_true == 0 && on_false == 1) return {ctx.b.Not(which)};
  }
  // Equal cases need no selection. They may be narrower than the result.
  if (cases.size() == 2 && cases[0] == cases[1])
    return {ctx.may_stay_narrow() ? cases[0] : ctx.expand(cases[0], ctx.out_dims())};
  if (which->dtype() == DType::kBool && cases.size() == 2) return {ctx.select(which, cases[1], cases[0])};
  Value* result = cases.back();
  for (size_t k = cases.size() - 1; k-- > 0;) {
    Value* here = ctx.via("LessOrEqual", {which, ctx.b.scalar_int(which->dtype(), static_cast<int64_t>(k))});
    result = ctx.select(here, cases[k], result);
  }
  return {result};
}

}  // namespace sardonyx::jax_to_onnx
