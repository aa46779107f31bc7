// rng_bit_generator[algorithm]   =>   rng_bit_generator[algorithm, dtype, shape]
// rng[UNIFORM]                   =>   rng_uniform[shape]
#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {

Values lower_rng_bit_generator(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), ctx.out_type(1)};
  const std::string algorithm = ctx.string_attr("rng_algorithm");
  if (algorithm != "DEFAULT" && algorithm != "THREE_FRY" && algorithm != "PHILOX")
    ctx.unsupported("the algorithm " + algorithm);
  return ctx.make(
      "rng_bit_generator", ctx.operands(), types,
      {attr("algorithm", "RNG_" + algorithm), attr("dtype", types[1]->dtype()), attr("shape", sizes_param(types[1]->dims()))});
}

Values lower_rng(Lowering& ctx) {
  if (ctx.string_attr("rng_distribution") != "UNIFORM") ctx.unsupported("a distribution other than UNIFORM");
  const Type* type = ctx.out_type(0, ctx.sizes(2, "the shape"));
  return {ctx.make("rng_uniform", {ctx.in(0), ctx.in(1)}, type, {attr("shape", sizes_param(type->dims()))})};
}

}  // namespace sardonyx::stablehlo_to_jax
