// compare[direction, type]      =>   eq, ne, lt, le, gt, ge; in total order eq_to, lt_to, le_to
// convert                       =>   convert_element_type
// select p x y                  =>   select_n(p, y, x)
// round_nearest_afz, _even      =>   round[AWAY_FROM_ZERO], round[TO_NEAREST_EVEN]
// reduce_precision, bitcast_convert, clamp   =>   the primitives of those names
// real, imag of real numbers    =>   the operand, 0
// chlo.is_inf, is_pos_inf, is_neg_inf        =>   comparisons with the infinities
#include <limits>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {

Values lower_compare(Lowering& ctx) {
  const std::string direction = ctx.string_attr("comparison_direction");
  const Type* type = ctx.map_type();
  Value *x = ctx.in(0), *y = ctx.in(1);
  const auto make = [&](std::string_view primitive, Value* a, Value* b) { return ctx.make(primitive, {a, b}, type); };
  const bool total = ctx.string_attr("compare_type") == "TOTALORDER" && is_float(x->dtype());
  if (total) {
    // JAX's order has every NaN behind the numbers; StableHLO's has NaNs with a sign before them.
    if (direction == "LT") return {make("lt_to", x, y)};
    if (direction == "LE") return {make("le_to", x, y)};
    if (direction == "GT") return {make("lt_to", y, x)};
    if (direction == "GE") return {make("le_to", y, x)};
    Value* equal = make("eq_to", x, y);
    return {direction == "EQ" ? equal : ctx.make("not", {equal}, type)};
  }
  if (direction == "EQ") return {make("eq", x, y)};
  if (direction == "NE") return {make("ne", x, y)};
  if (direction == "LT") return {make("lt", x, y)};
  if (direction == "LE") return {make("le", x, y)};
  if (direction == "GT") return {make("gt", x, y)};
  if (direction == "GE") return {make("ge", x, y)};
  ctx.unsupported("the direction '" + direction + "'");
}

Values lower_convert(Lowering& ctx) {
  const Type* type = ctx.map_type();
  if (ctx.in_dtype(0) == type->dtype()) return {ctx.in(0)};
  return {ctx.make("convert_element_type", {ctx.in(0)}, type, {attr("new_dtype", type->dtype()), attr("weak_type", false)})};
}

Values lower_select(Lowering& ctx) {
  const Type* type = ctx.map_type();
  return {ctx.make("select_n", {ctx.in(0), ctx.in(2), ctx.in(1)}, type)};
}

Values lower_clamp(Lowering& ctx) { return {ctx.make("clamp", ctx.operands(), ctx.map_type())}; }

Values lower_round_nearest_afz(Lowering& ctx) {
  return {ctx.make("round", {ctx.in(0)}, ctx.map_type(), {attr("rounding_method", "AWAY_FROM_ZERO")})};
}

Values lower_round_nearest_even(Lowering& ctx) {
  return {ctx.make("round", {ctx.in(0)}, ctx.map_type(), {attr("rounding_method", "TO_NEAREST_EVEN")})};
}

Values lower_reduce_precision(Lowering& ctx) {
  return {
      ctx.make("reduce_precision", {ctx.in(0)}, ctx.map_type(),
               {attr("exponent_bits", ctx.int_attr("exponent_bits")), attr("mantissa_bits", ctx.int_attr("mantissa_bits"))})};
}

Values lower_bitcast_convert(Lowering& ctx) {
  const Type* type = ctx.out_type(0, ctx.in_dims(0).first(std::min(ctx.in_rank(0), ctx.out_rank())));
  return {ctx.make("bitcast_convert_type", {ctx.in(0)}, type, {attr("new_dtype", type->dtype())})};
}

Values lower_real(Lowering& ctx) {
  if (!is_complex(ctx.in_dtype(0))) return {ctx.in(0)};
  return {ctx.make("real", {ctx.in(0)}, ctx.map_type())};
}

Values lower_imag(Lowering& ctx) {
  if (!is_complex(ctx.in_dtype(0))) return {ctx.number(ctx.map_type(), 0)};
  return {ctx.make("imag", {ctx.in(0)}, ctx.map_type())};
}

namespace {

Values is_infinity(Lowering& ctx, Value* x, double infinity) {
  return {ctx.make("eq", {x, ctx.number(x->type(), infinity)}, ctx.map_type())};
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Values lower_is_inf(Lowering& ctx) { return is_infinity(ctx, ctx.map("abs", {ctx.in(0)}), kInfinity); }
Values lower_is_pos_inf(Lowering& ctx) { return is_infinity(ctx, ctx.in(0), kInfinity); }
Values lower_is_neg_inf(Lowering& ctx) { return is_infinity(ctx, ctx.in(0), -kInfinity); }

Values lower_constant_like(Lowering& ctx) {
  const Attr& value = ctx.attr("value");
  const Type* type = ctx.map_type();
  if (const auto* n = value.get<int64_t>()) return {ctx.integer(type, *n)};
  if (const auto* t = value.get<TensorPtr>()) return {ctx.spread(ctx.b.constant(*t), type)};
  return {ctx.number(type, ctx.float_attr("value"))};
}

}  // namespace sardonyx::stablehlo_to_jax
