// The table of lowerings, read from elementwise.def and lowerings.def, and CHLO's operations that broadcast.
#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {

#define SX_LOWERING(operation) Values lower_##operation(Lowering& ctx);
#define SX_LOWERING_AS(operation, function) Values function(Lowering& ctx);
#include "lower/stablehlo_to_jax/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS

namespace {

using Table = lower::Table<Lowering>;

Table::Fn elementwise(std::string_view primitive, std::string_view of_bools) {
  return [primitive, of_bools](Lowering& ctx) -> Values {
    const Type* type = ctx.map_type();
    return {ctx.make(ctx.in_dtype(0) == DType::kBool ? of_bools : primitive, ctx.operands(), type)};
  };
}

Table all_lowerings() {
  Table t;
#define SX_ELEMENTWISE(operation, primitive) t.add(operation, elementwise(primitive, primitive));
#define SX_ELEMENTWISE_BOOL(operation, primitive, of_bools) t.add(operation, elementwise(primitive, of_bools));
#include "lower/stablehlo_to_jax/elementwise.def"
#undef SX_ELEMENTWISE
#undef SX_ELEMENTWISE_BOOL
#define SX_LOWERING(operation) t.add(#operation, lower_##operation);
#define SX_LOWERING_AS(operation, function) t.add(operation, function);
#include "lower/stablehlo_to_jax/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
  return t;
}

}  // namespace

const lower::Table<Lowering>& table() {
  static const Table all = all_lowerings();
  return all;
}

}  // namespace sardonyx::stablehlo_to_jax
