// Functions that ONNX lacks and several lowerings need. Operands are f32 or f64: the caller has widened what is smaller.
#pragma once

#include <initializer_list>

#include "lower/kernels.h"

namespace sardonyx {

Value* log1p(Lowering& at, Value* x);
// (exp(x) - 1) without cancellation.
Value* expm1(Lowering& at, Value* x);
// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
Value* polynomial(Lowering& at, Value* x, std::initializer_list<double> c);
// The sign bit of x, as bool: true for -0.
Value* sign_bit(Lowering& at, Value* x);
// erf and atan in f64, for which runtimes have no kernel.
Value* erf_f64(Lowering& at, Value* x);
Value* erfc_f64(Lowering& at, Value* x);
Value* atan_f64(Lowering& at, Value* x);

}  // namespace sardonyx
