// Functions that ONNX lacks and several lowerings need. Operands are f32 or f64: the caller widens smaller
// types.
#pragma once

#include <initializer_list>

#include "lower/jax_to_onnx/lib/num.h"

namespace sardonyx::jax_to_onnx {

Value* log1p(Lowering& ctx, Value* x);
// exp(x) - 1 without cancellation.
Value* expm1(Lowering& ctx, Value* x);
// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
Value* polynomial(Lowering& ctx, Value* x, std::initializer_list<double> c);
// The sign bit of x, as bool: true for -0.
Value* sign_bit(Lowering& ctx, Value* x);
// erf and atan in f64, for which runtimes have no kernel.
Value* erf_f64(Lowering& ctx, Value* x);
Value* erfc_f64(Lowering& ctx, Value* x);
Value* atan_f64(Lowering& ctx, Value* x);
// The angle of (x, y) in (-pi, pi], with the signs of zeros.
Value* atan2(Lowering& ctx, Value* y, Value* x);
Value* erf_inv(Lowering& ctx, Value* x);
// log |gamma(x)| and its derivative.
Value* log_gamma(Lowering& ctx, Value* x);
Value* di_gamma(Lowering& ctx, Value* x);
inline Num atan2(const Num& y, const Num& x) { return y.with(atan2(y.ctx(), y.value(), x.value())); }
inline Num expm1(const Num& x) { return x.with(expm1(x.ctx(), x.value())); }
inline Num log1p(const Num& x) { return x.with(log1p(x.ctx(), x.value())); }
inline Num log_gamma(const Num& x) { return x.with(log_gamma(x.ctx(), x.value())); }
inline Num di_gamma(const Num& x) { return x.with(di_gamma(x.ctx(), x.value())); }

// The operands in f32, or in f64 if they are f64; expanded to the full shape, so that loops can carry values
// computed from them.
std::vector<Num> wide_operands(Lowering& ctx);
// The difference between 1 and the next float of x's type, and the largest float.
double epsilon(const Num& x);
double largest(const Num& x);

}  // namespace sardonyx::jax_to_onnx
