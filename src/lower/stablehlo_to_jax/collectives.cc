// all_gather, all_reduce, all_to_all,            =>   the operands, where each group of devices has one
// collective_broadcast, reduce_scatter                member
// collective_permute                             =>   the operand; zeros where no device sends
#include "lower/stablehlo_to_jax/lowering.h"

namespace sardonyx::stablehlo_to_jax {

Values lower_collective(Lowering& ctx) {
  const auto* groups = ctx.attr("replica_groups").get<TensorPtr>();
  if (groups == nullptr || (*groups)->rank() != 2 || (*groups)->shape()[0] == 0 || (*groups)->shape()[1] != 1)
    ctx.unsupported("groups of several devices");
  return ctx.operands();
}

Values lower_collective_permute(Lowering& ctx) {
  const std::vector<Ints> pairs = ctx.rows_attr("source_target_pairs");
  if (pairs.empty()) return {ctx.number(ctx.in_type(0), 0)};
  if (pairs.size() > 1 || pairs[0][0] != pairs[0][1]) ctx.unsupported("several devices");
  return ctx.operands();
}

}  // namespace sardonyx::stablehlo_to_jax
