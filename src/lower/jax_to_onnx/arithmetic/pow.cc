// pow x y            =>   Pow(x, y)                the base is a float, the exponent a float or an integer
// integer_pow[y] x   =>   Pow(x, y); products for squares and for integers, since Pow computes them in double
// square x           =>   Mul(x, x)
// exp2 x             =>   Pow(2, x)                exact at integers
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {
namespace {

// x^n by repeated squaring; wraps like integers.
Value* repeated_product(Lowering& ctx, Value* x, int64_t n) {
  Value* power = nullptr;
  for (Value* square = x;; square = ctx.via("Mul", {square, square})) {
    if ((n & 1) != 0) power = power == nullptr ? square : ctx.via("Mul", {power, square});
    n >>= 1;
    if (n == 0) return power;
  }
}

}  // namespace

std::vector<Value*> lower_pow(Lowering& ctx) {
  auto xs = ctx.operands();
  Value *x = xs[0], *y = xs[1];
  DType own = x->dtype();
  DType base = kernel_dtype(ctx, {"Pow"}, own);
  if (base == DType::kUndefined) ctx.unsupported("ONNX has no way to compute Pow in " + std::string(to_string(own)));
  DType exponent = is_float(y->dtype()) ? base : kernel_dtype(ctx, {"Pow"}, y->dtype());
  if (exponent == DType::kUndefined) exponent = DType::kI64;  // u64: beyond i64 the power is 0, 1 or infinite anyway
  return {ctx.cast(ctx.b.Pow(ctx.cast(x, base), ctx.cast(y, exponent)), own)};
}

std::vector<Value*> lower_integer_pow(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  int64_t y = ctx.int_param("y");
  if (y == 0) return {ctx.full(ctx.out_dtype(), ctx.out_dims(), 1)};
  if (y == 1) return {x};
  if (is_integer(x->dtype())) {
    if (y < 0) ctx.unsupported("negative powers of integers");
    return {repeated_product(ctx, x, y)};
  }
  if (y == 2) return {ctx.via("Mul", {x, x})};
  if (y == -1) return {ctx.via("Reciprocal", {x})};
  return {ctx.via({"Pow"}, x, [&](Value* v) { return ctx.b.Pow(v, ctx.like(v, static_cast<double>(y))); }, false)};
}

std::vector<Value*> lower_square(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  return {ctx.via("Mul", {x, x})};
}

std::vector<Value*> lower_exp2(Lowering& ctx) {
  return {ctx.via({"Pow"}, ctx.operands()[0], [&](Value* x) { return ctx.b.Pow(ctx.like(x, 2), x); }, false)};
}

}  // namespace sardonyx::jax_to_onnx
