// rng_bit_generator[algorithm]   =>   rng_bit_generator[algorithm, dtype, shape]
// rng[UNIFORM]                   =>   rng_uniform[shape]
#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {

namespace {

Values random_bits(Lowering& ctx, const Type* type) {
  const Type* types[] = {ctx.in_type(0), type};
  const std::string algorithm = ctx.string_attr("rng_algorithm");
  if (algorithm != "DEFAULT" && algorithm != "THREE_FRY" && algorithm != "PHILOX")
    ctx.unsupported("the algorithm " + algorithm);
  return ctx.make(
      "rng_bit_generator", std::vector<Value*>{ctx.in(0)}, types,
      {attr("algorithm", "RNG_" + algorithm), attr("dtype", type->dtype()), attr("shape", sizes_param(type->dims()))});
}

}  // namespace

Values lower_rng_bit_generator(Lowering& ctx) { return random_bits(ctx, ctx.out_type(1)); }
Values lower_dynamic_rng_bit_generator(Lowering& ctx) { return random_bits(ctx, ctx.out_type(1, ctx.sizes(1, "the shape"))); }

Values lower_rng(Lowering& ctx) {
  if (ctx.string_attr("rng_distribution") != "UNIFORM") ctx.unsupported("a distribution other than UNIFORM");
  const Type* type = ctx.out_type(0, ctx.sizes(2, "the shape"));
  return {ctx.make("rng_uniform", {ctx.in(0), ctx.in(1)}, type, {attr("shape", sizes_param(type->dims()))})};
}

}  // namespace sardonyx::stablehlo_to_jax
