// add x y   =>   Add(x, y)                        x + 0 = x for integers (0 would change a float -0)
// mul x y   =>   Mul(x, y), bools: And            x * 1 = x;  with an out_dtype: casts the operands first
// max x y   =>   Max(x, y), bools: Or             max(x, -inf) = x, as in softmax
// min x y   =>   Min(x, y), bools: And            min(x, inf) = x
// and x y   =>   BitwiseAnd(x, y), bools: And     and(x, true) = x, as in attention masks
// or x y    =>   BitwiseOr(x, y), bools: Or       or(x, 0) = x
#include <limits>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {
namespace {

std::vector<Value*> unless_neutral(Lowering& ctx, std::string_view op, double neutral) {
  auto xs = ctx.operands();
  for (size_t i = 0; i < 2; ++i) {
    auto value = ctx.splat_value(i);
    if (!value || *value != neutral) continue;
    // The core accepts a narrow result only from `and` and `or` of a broadcast
    // (Context::may_stay_narrow).
    const bool is_logic = ctx.node.is("and") || ctx.node.is("or");
    if (xs[1 - i]->type() == ctx.out_type() || (is_logic && ctx.may_stay_narrow())) return {xs[1 - i]};
    return {ctx.expand(xs[1 - i], ctx.out_dims())};
  }
  return {ctx.via(op, xs)};
}

bool is_bool(const Lowering& ctx) { return ctx.out_dtype() == DType::kBool; }

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // equal to nothing

}  // namespace

std::vector<Value*> lower_add(Lowering& ctx) { return unless_neutral(ctx, "Add", is_integer(ctx.out_dtype()) ? 0 : kNone); }

std::vector<Value*> lower_mul(Lowering& ctx) {
  if (is_bool(ctx)) return unless_neutral(ctx, "And", 1);
  if (ctx.in_dtype(0) == ctx.out_dtype()) return unless_neutral(ctx, "Mul", 1);
  auto xs = ctx.operands();
  for (Value*& x : xs) x = ctx.cast(x, ctx.out_dtype());
  return {ctx.via("Mul", xs)};
}

std::vector<Value*> lower_max(Lowering& ctx) {
  return unless_neutral(ctx, is_bool(ctx) ? "Or" : "Max", is_bool(ctx) ? 0 : -kInfinity);
}
std::vector<Value*> lower_min(Lowering& ctx) {
  return unless_neutral(ctx, is_bool(ctx) ? "And" : "Min", is_bool(ctx) ? 1 : kInfinity);
}

std::vector<Value*> lower_and(Lowering& ctx) {
  return unless_neutral(ctx, is_bool(ctx) ? "And" : "BitwiseAnd", is_bool(ctx) ? 1 : kNone);
}

std::vector<Value*> lower_or(Lowering& ctx) { return unless_neutral(ctx, is_bool(ctx) ? "Or" : "BitwiseOr", 0); }

}  // namespace sardonyx::jax_to_onnx
