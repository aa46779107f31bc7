// sinh x    =>   Sinh(x), in f64 (e + e / (e + 1)) / 2 with e = exp|x| - 1, and the sign of x
// cosh x    =>   Cosh(x), in f64 exp(|x| - log 2) + exp(-|x| - log 2), which overflows no sooner than the result
// asinh x   =>   Asinh(x), in f64 log1p(|x| + x^2 / (1 + sqrt(1 + x^2))), and the sign of x
// acosh x   =>   Acosh(x), in f64 log1p(t + sqrt(2 t + t^2)) with t = x - 1
// atanh x   =>   Atanh(x), in f64 log1p(2 |x| / (1 - |x|)) / 2, and the sign of x
//
// Runtimes have these operators in f32 only. Where the square overflows, asinh and acosh are log(2 |x|).
#include <numbers>

#include "lower/special.h"

namespace sardonyx {
namespace {

using Formula = Value* (*)(Lowering&, Value*);

std::vector<Value*> one_operator(Lowering& at, std::string_view op, Formula in_f64) {
  Value* x = operands(at)[0];
  if (x->dtype() == DType::kF64) return {in_f64(at, x)};
  return {via(at, op, {x})};
}

// `small` below 2^28, where 1 is still seen beside x^2; log(2x) above.
Value* unless_large(Lowering& at, Value* x, Value* small) {
  OnnxBuilder& b = at.b;
  Value* large = b.Add(b.Log(x), like(at, x, std::numbers::ln2));
  return b.Where(b.Greater(x, like(at, x, 268435456)), large, small);
}

Value* sinh_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* half = like(at, x, 0.5);
  Value* a = b.Abs(x);
  Value* e = expm1(at, b.Min({a, like(at, x, 700)}));
  Value* small = b.Mul(half, b.Add(e, b.Div(e, b.Add(e, like(at, x, 1)))));
  Value* large = b.Exp(b.Sub(a, like(at, x, std::numbers::ln2)));
  return b.Mul(b.Where(b.Greater(a, like(at, x, 700)), large, small), b.Sign(x));
}

Value* cosh_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* log2 = like(at, x, std::numbers::ln2);
  Value* a = b.Abs(x);
  return b.Add(b.Exp(b.Sub(a, log2)), b.Exp(b.Sub(b.Neg(a), log2)));
}

Value* asinh_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* one = like(at, x, 1);
  Value* a = b.Abs(x);
  Value* square = b.Mul(a, a);
  Value* small = log1p(at, b.Add(a, b.Div(square, b.Add(one, b.Sqrt(b.Add(one, square))))));
  return b.Mul(unless_large(at, a, small), b.Sign(x));
}

Value* acosh_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* t = b.Sub(x, like(at, x, 1));
  Value* small = log1p(at, b.Add(t, b.Sqrt(b.Mul(t, b.Add(t, like(at, x, 2))))));
  return unless_large(at, x, small);
}

Value* atanh_f64(Lowering& at, Value* x) {
  OnnxBuilder& b = at.b;
  Value* a = b.Abs(x);
  Value* ratio = b.Div(b.Mul(a, like(at, x, 2)), b.Sub(like(at, x, 1), a));
  return b.Mul(b.Mul(log1p(at, ratio), like(at, x, 0.5)), b.Sign(x));
}

}  // namespace

std::vector<Value*> lower_sinh(Lowering& at) { return one_operator(at, "Sinh", sinh_f64); }
std::vector<Value*> lower_cosh(Lowering& at) { return one_operator(at, "Cosh", cosh_f64); }
std::vector<Value*> lower_asinh(Lowering& at) { return one_operator(at, "Asinh", asinh_f64); }
std::vector<Value*> lower_acosh(Lowering& at) { return one_operator(at, "Acosh", acosh_f64); }
std::vector<Value*> lower_atanh(Lowering& at) { return one_operator(at, "Atanh", atanh_f64); }

}  // namespace sardonyx
