// Formulas on numbers that may be complex: one text serves both. A real number has no imaginary part and
// costs nothing more.
//
// In the graph a complex value is a real tensor with a last axis of 2; here it is two tensors. join(split(x))
// is x itself, and split(join(re, im)) returns re and im, so consecutive complex equations do not join and
// split.
#pragma once

#include "lower/jax_to_onnx/lib/num.h"

namespace sardonyx::jax_to_onnx {

class Complex {
 public:
  Complex(Num real) : re(real) {}  // NOLINT(google-explicit-constructor): a real number is a complex number
  Complex(Num real, Num imaginary) : re(real), im(imaginary) {}
  Complex(Num real, std::optional<Num> imaginary) : re(real), im(imaginary) {}

  Num re;
  std::optional<Num> im;

  bool is_real() const { return !im.has_value(); }
  Scope scope() const { return re.scope(); }
  Lowering& ctx() const { return re.ctx(); }
  std::span<const Dim> dims() const { return re.dims(); }
  size_t rank() const { return re.rank(); }
  Dim dim(int64_t axis) const { return re.dim(axis); }
  // The imaginary part; for real numbers, zeros of the same shape.
  Num imaginary() const { return im ? *im : full_like(re, 0); }
};

// Applies f to both parts.
template <class F>
Complex each_part(const Complex& x, F&& f) {
  return {f(x.re), x.im ? std::optional<Num>(f(*x.im)) : std::nullopt};
}

Complex operator+(const Complex& x, const Complex& y);
Complex operator-(const Complex& x, const Complex& y);
Complex operator*(const Complex& x, const Complex& y);
Complex operator/(const Complex& x, const Complex& y);  // Smith's method: intermediate results do not overflow
Complex matmul(const Complex& x, const Complex& y);
inline Complex operator+(const Complex& x, double y) { return {x.re + y, x.im}; }
inline Complex operator-(const Complex& x, double y) { return {x.re - y, x.im}; }
inline Complex operator*(const Complex& x, double y) {
  return each_part(x, [y](const Num& v) { return v * y; });
}
inline Complex operator-(const Complex& x) {
  return each_part(x, [](const Num& v) { return -v; });
}
Complex conj(const Complex& x);
Num square_of_abs(const Complex& x);
Num abs(const Complex& x);                           // intermediate results do not overflow
Complex larger(const Complex& x, const Complex& y);  // by real part, then by imaginary part
Complex smaller(const Complex& x, const Complex& y);
Complex where(const Num& condition, const Complex& x, const Complex& y);
inline Complex where(const Num& condition, const Complex& x, double y) { return where(condition, x, Complex(x.re.of(y))); }
inline Complex where(const Num& condition, double x, const Complex& y) { return where(condition, Complex(y.re.of(x)), y); }

Complex full_like(const Complex& x, double v);  // as complex as x
Complex concat(std::initializer_list<Complex> xs, int64_t axis);
inline Complex unsqueeze(const Complex& x, int64_t axis) {
  return each_part(x, [=](const Num& v) { return unsqueeze(v, axis); });
}
inline Complex squeeze(const Complex& x, int64_t axis) {
  return each_part(x, [=](const Num& v) { return squeeze(v, axis); });
}
inline Complex swap_last_axes(const Complex& x) {
  return each_part(x, [](const Num& v) { return swap_last_axes(v); });
}
inline Complex adjoint(const Complex& x) { return conj(swap_last_axes(x)); }
inline Complex slice(const Complex& x, int64_t axis, Dim start, Dim stop) {
  return each_part(x, [=](const Num& v) { return slice(v, axis, start, stop); });
}
inline Complex gather(const Complex& x, const Num& index, int64_t axis) {
  return each_part(x, [&](const Num& v) { return gather(v, index, axis); });
}
inline Complex sum(const Complex& x, int64_t axis, bool keepdims = false) {
  return each_part(x, [=](const Num& v) { return sum(v, axis, keepdims); });
}
inline Complex expand(const Complex& x, std::span<const Dim> dims) {
  return each_part(x, [=](const Num& v) { return expand(v, dims); });
}
inline Complex reshape(const Complex& x, std::span<const Dim> dims) {
  return each_part(x, [=](const Num& v) { return reshape(v, dims); });
}

// Operand i of the equation. split() and join() convert from and to the form that the graph holds.
Complex operand(Lowering& ctx, size_t i);
Complex split(Lowering& ctx, Value* x);
Value* join(const Complex& x);
// join(), with a zero imaginary part if result i is complex and x is not.
Value* result(Lowering& ctx, const Complex& x, size_t i = 0);

// Lowerings made from the one for real numbers: of an equation that does the same to the real and the
// imaginary part (sums, moves), and of one that multiplies its first two operands.
std::vector<Value*> part_by_part(Lowering& ctx, const LowerFn& real);
// Like part_by_part(), for lowerings that handle the last axis of 2 themselves: splits only operands that
// were just joined.
std::vector<Value*> moved(Lowering& ctx, const LowerFn& real);
std::vector<Value*> product_of_parts(Lowering& ctx, const LowerFn& real);

// loop() and repeat() of num.h on complex numbers. A complex state stays complex.
using ComplexBody = std::function<std::optional<Num>(const Num& i, std::vector<Complex>& s)>;
std::vector<Complex> loop(Scope scope, Value* trips, std::optional<Num> go_on, std::vector<Complex> s, const ComplexBody& body);
std::vector<Complex> repeat(Scope scope, Value* trips, std::vector<Complex> s,
                            const std::function<void(const Num& i, std::vector<Complex>& s)>& body);

}  // namespace sardonyx::jax_to_onnx
