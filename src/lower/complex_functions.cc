// Functions of complex numbers z = x + iy, by their real and imaginary parts. Sources: NIST's Digital Library of Mathematical Functions, 4.2 to
// 4.37, for definitions and branch cuts; W. Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse ones.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/complex.h"
#include "lower/reduction.h"
#include "lower/special.h"

namespace sardonyx {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;

using Function = Complex (*)(const Complex&);

std::vector<Value*> of_one(Lowering& at, Function f) { return {result(at, f(operand(at, 0)))}; }

// z = x + iy
Num real(const Complex& z) { return z.re; }
Num imag(const Complex& z) { return *z.im; }

// Hyperbolic functions of a real number, without cancellation near zero.
Num sinh(const Num& x) {
  Num e = expm1(abs(x));
  return (e + e / (e + 1)) * 0.5 * sign(x);
}
Num cosh(const Num& x) { return (exp(x) + exp(-x)) * 0.5; }

Complex times_i(const Complex& z) { return {-imag(z), real(z)}; }
Complex over_i(const Complex& z) { return {imag(z), -real(z)}; }

Complex exp(const Complex& z) {
  Num size = exp(real(z));
  return {size * cos(imag(z)), size * sin(imag(z))};
}

Complex log(const Complex& z) { return {log(abs(z)), atan2(imag(z), real(z))}; }

// log(1 + z): the square of the size, less 1, has no cancellation for small z.
Complex log1p(const Complex& z) {
  Num x = real(z), y = imag(z);
  Num near = log1p(x * (x + 2) + y * y) * 0.5, far = log(abs(z + 1));
  return {where(abs(x) + abs(y) < 0.5, near, far), atan2(y, x + 1)};
}

Complex expm1(const Complex& z) {
  Num x = real(z), y = imag(z);
  Num half_sine = sin(y * 0.5);
  return {expm1(x) * cos(y) - half_sine * half_sine * 2, exp(x) * sin(y)};
}

// The part of the larger size first; the other one from their product y / 2.
Complex sqrt(const Complex& z) {
  Num x = real(z), y = imag(z);
  Num large = sqrt((abs(z) + abs(x)) * 0.5);
  Num is_zero = eq(large, 0);
  Num small = where(is_zero, large, abs(y) / (where(is_zero, 1, large) * 2));
  Num right = x >= 0;
  Num negative = Num(y.scope(), sign_bit(y.at(), y.value()));
  Num im = where(right, small, large);
  return {where(right, large, small), where(negative, -im, im)};
}

Complex sin(const Complex& z) { return {sin(real(z)) * cosh(imag(z)), cos(real(z)) * sinh(imag(z))}; }
Complex cos(const Complex& z) { return {cos(real(z)) * cosh(imag(z)), -(sin(real(z)) * sinh(imag(z)))}; }
Complex sinh(const Complex& z) { return {sinh(real(z)) * cos(imag(z)), cosh(real(z)) * sin(imag(z))}; }
Complex cosh(const Complex& z) { return {cosh(real(z)) * cos(imag(z)), sinh(real(z)) * sin(imag(z))}; }

// (sinh 2x + i sin 2y) / (cosh 2x + cos 2y), both over e^2|x|: e = e^-2|x| never overflows.
Complex tanh(const Complex& z) {
  Num a = abs(real(z)), y2 = imag(z) * 2;
  Num e = exp(a * -2);
  Num below = e * e + e * cos(y2) * 2 + 1;
  return {-expm1(a * -4) * sign(real(z)) / below, e * sin(y2) * 2 / below};
}

Complex tan(const Complex& z) { return over_i(tanh(times_i(z))); }

Num asinh(const Num& x) {
  Num a = abs(x), square = a * a;
  return log1p(a + square / (sqrt(square + 1) + 1)) * sign(x);
}

// Kahan's formula: the imaginary part from a cross product, in which nothing cancels; the two roots keep the branch cuts in their place.
Complex asin(const Complex& z) {
  Complex minus = sqrt(-z + 1), plus = sqrt(z + 1);
  Num cross = real(minus) * imag(plus) - imag(minus) * real(plus);
  return {atan2(real(z), real(minus * plus)), asinh(cross)};
}

Complex asinh(const Complex& z) { return over_i(asin(times_i(z))); }
Complex atanh(const Complex& z) { return (log1p(z) - log1p(-z)) * 0.5; }
Complex acos(const Complex& z) {
  Complex a = asin(z);
  return {kPi / 2 - real(a), -imag(a)};
}
Complex acosh(const Complex& z) { return log(z + sqrt(z + 1) * sqrt(z - 1)); }
Complex atan(const Complex& z) { return over_i(atanh(times_i(z))); }

Complex inverse(const Complex& z) { return Complex(z.re.of(1), z.re.of(0)) / z; }

Complex power(const Complex& z, int64_t n) {
  std::optional<Complex> product;
  Complex square = z;
  for (uint64_t rest = static_cast<uint64_t>(n < 0 ? -n : n); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) product = product ? *product * square : square;
    if (rest > 1) square = square * square;
  }
  return n < 0 ? inverse(*product) : *product;
}

}  // namespace

std::vector<Value*> complex_acos(Lowering& at) { return of_one(at, acos); }
std::vector<Value*> complex_acosh(Lowering& at) { return of_one(at, acosh); }
std::vector<Value*> complex_asin(Lowering& at) { return of_one(at, asin); }
std::vector<Value*> complex_asinh(Lowering& at) { return of_one(at, asinh); }
std::vector<Value*> complex_atan(Lowering& at) { return of_one(at, atan); }
std::vector<Value*> complex_atanh(Lowering& at) { return of_one(at, atanh); }
std::vector<Value*> complex_cos(Lowering& at) { return of_one(at, cos); }
std::vector<Value*> complex_cosh(Lowering& at) { return of_one(at, cosh); }
std::vector<Value*> complex_exp(Lowering& at) { return of_one(at, exp); }
std::vector<Value*> complex_expm1(Lowering& at) { return of_one(at, expm1); }
std::vector<Value*> complex_log(Lowering& at) { return of_one(at, log); }
std::vector<Value*> complex_log1p(Lowering& at) { return of_one(at, log1p); }
std::vector<Value*> complex_sin(Lowering& at) { return of_one(at, sin); }
std::vector<Value*> complex_sinh(Lowering& at) { return of_one(at, sinh); }
std::vector<Value*> complex_sqrt(Lowering& at) { return of_one(at, sqrt); }
std::vector<Value*> complex_tan(Lowering& at) { return of_one(at, tan); }
std::vector<Value*> complex_tanh(Lowering& at) { return of_one(at, tanh); }
std::vector<Value*> complex_abs(Lowering& at) { return {abs(operand(at, 0)).value()}; }

std::vector<Value*> complex_exp2(Lowering& at) {
  return of_one(at, [](const Complex& z) { return exp(z * kLn2); });
}
std::vector<Value*> complex_rsqrt(Lowering& at) {
  return of_one(at, [](const Complex& z) { return inverse(sqrt(z)); });
}
std::vector<Value*> complex_logistic(Lowering& at) {
  return of_one(at, [](const Complex& z) { return inverse(exp(-z) + 1); });
}
std::vector<Value*> complex_square(Lowering& at) {
  return of_one(at, [](const Complex& z) { return z * z; });
}
std::vector<Value*> complex_conj(Lowering& at) {
  return of_one(at, [](const Complex& z) { return conj(z); });
}
std::vector<Value*> complex_sign(Lowering& at) {
  return of_one(at, [](const Complex& z) {
    Num size = abs(z);
    return z / Complex(where(eq(size, 0), 1, size));
  });
}

namespace {

bool is_zero(const Num& x) {
  const Node* n = x.value()->def();
  if (n != nullptr && n->is("ConstantOfShape")) {
    const Attr* value = n->attr("value");
    const auto* fill = value != nullptr ? value->get<TensorPtr>() : nullptr;
    return value == nullptr || (fill != nullptr && (*fill)->as_double(0) == 0);
  }
  return splat_value(x.value()) == 0.0;
}

// Operand i, as a real number where its imaginary part is known to be zero: real factors are common.
Complex factor(Lowering& at, size_t i) {
  Complex z = operand(at, i);
  return z.im && is_zero(*z.im) ? Complex(z.re) : z;
}

bool is_imaginary(const Complex& z) { return z.im && is_zero(z.re); }

}  // namespace

std::vector<Value*> complex_mul(Lowering& at) {
  Complex z = factor(at, 0), w = factor(at, 1);
  if (is_imaginary(w)) std::swap(z, w);
  // iy w = i (y w)
  if (is_imaginary(z)) {
    Complex turned = w * Complex(*z.im);
    return {
        join(w.is_real() ? Complex(turned.re.with(at.zeros(turned.re.dtype(), turned.dims())), turned.re) : times_i(turned))};
  }
  return {result(at, z * w)};
}
std::vector<Value*> complex_div(Lowering& at) { return {result(at, operand(at, 0) / factor(at, 1))}; }

std::vector<Value*> complex_integer_pow(Lowering& at) {
  int64_t n = at.int_param("y");
  Complex z = operand(at, 0);
  return {result(at, n == 0 ? full_like(z, 1) : power(z, n))};
}

// exp(w log z); 0^0 = 1 and 0^w = 0 otherwise.
std::vector<Value*> complex_pow(Lowering& at) {
  Complex z = operand(at, 0), w = operand(at, 1);
  Num base_is_zero = eq(abs(z), 0), exponent_is_zero = eq(w.is_real() ? abs(w.re) : abs(w), 0);
  if (is_integer(w.re.dtype())) w = cast(w.re, z.re.dtype());
  Complex safe = where(base_is_zero, Complex(z.re.of(1)), z);
  Complex usual = exp(w * log(safe));
  usual = where(base_is_zero, Complex(z.re.of(0)), usual);
  return {result(at, where(exponent_is_zero, Complex(z.re.of(1)), usual))};
}

// The angle in the plane of two complex numbers: -i log((x + iy) / sqrt(x^2 + y^2)).
std::vector<Value*> complex_atan2(Lowering& at) {
  Complex y = operand(at, 0), x = operand(at, 1);
  return {result(at, over_i(log((x + times_i(y)) / sqrt(x * x + y * y))))};
}

namespace {

// By real parts, and by imaginary ones where these are equal.
Complex extreme(const Complex& z, const Complex& w, bool greatest) {
  Num first = greatest ? z.re > w.re : z.re < w.re, second = greatest ? *z.im > *w.im : *z.im < *w.im;
  return where(first | (eq(z.re, w.re) & second) | is_nan(z.re) | is_nan(*z.im), z, w);
}

Complex reduced_to_extreme(Lowering& at, std::string_view op, double least) {
  Complex z = operand(at, 0);
  auto axes = at.ints_param("axes");
  auto over = [&](const Num& x, bool keepdims) { return x.with(reduce(at, op, x.value(), axes, keepdims)); };
  Num re = over(z.re, true);
  Num im = over(where(eq(z.re, re), *z.im, least), false);
  return {reshape(re, im.dims()), im};
}

}  // namespace

std::vector<Value*> complex_max(Lowering& at) { return {result(at, extreme(operand(at, 0), operand(at, 1), true))}; }
std::vector<Value*> complex_min(Lowering& at) { return {result(at, extreme(operand(at, 0), operand(at, 1), false))}; }
std::vector<Value*> complex_reduce_max(Lowering& at) {
  return {result(at, reduced_to_extreme(at, "ReduceMax", -std::numeric_limits<double>::infinity()))};
}
std::vector<Value*> complex_reduce_min(Lowering& at) {
  return {result(at, reduced_to_extreme(at, "ReduceMin", std::numeric_limits<double>::infinity()))};
}

std::vector<Value*> complex_eq(Lowering& at) {
  Complex z = operand(at, 0), w = operand(at, 1);
  return {(eq(z.re, w.re) & eq(*z.im, *w.im)).value()};
}
std::vector<Value*> complex_ne(Lowering& at) {
  Complex z = operand(at, 0), w = operand(at, 1);
  return {(!(eq(z.re, w.re) & eq(*z.im, *w.im))).value()};
}

std::vector<Value*> complex_real(Lowering& at) { return {operand(at, 0).re.value()}; }
std::vector<Value*> complex_imag(Lowering& at) { return {operand(at, 0).imaginary().value()}; }

// Operands may be narrower than the result: their parts meet in a Concat, which does not broadcast.
std::vector<Value*> complex_of_parts(Lowering& at) {
  auto part = [&](size_t i) { return Num(at, at.expand(at.in(i), at.out_dims())); };
  return {join({part(0), part(1)})};
}

std::vector<Value*> complex_iota(Lowering& at) {
  auto dims = at.out_dims();
  auto axis = static_cast<size_t>(at.int_param("dimension"));
  Num re(at, at.iota(at.stored_out_type()->dtype(), dims[axis]));
  for (size_t i = axis + 1; i < dims.size(); ++i) re = unsqueeze(re, -1);
  re = expand(re, dims);
  return {join({re, full_like(re, 0)})};
}

std::vector<Value*> complex_convert(Lowering& at) {
  DType from = at.in_dtype(0), to = at.out_dtype();
  if (!is_complex(from)) {
    Num re(at, at.expand(at.cast(at.in(0), at.stored_out_type()->dtype()), at.out_dims()));
    return {join({re, full_like(re, 0)})};
  }
  if (is_complex(to)) return {at.cast(at.in(0), at.stored_out_type()->dtype())};
  return {at.cast(operand(at, 0).re.value(), to)};
}

namespace {

using Combine = std::function<Complex(const Complex&, const Complex&)>;

// x = op(x shifted, x) by 1, by 2, by 4, ..., where nothing is shifted in.
Complex by_steps(Complex z, int64_t axis, int64_t size, bool reverse, const Combine& op) {
  for (int64_t shift = 1; shift < size; shift *= 2) {
    Dim n = Dim::of(size), by = Dim::of(shift), rest = Dim::of(size - shift);
    Complex kept = reverse ? slice(z, axis, rest, n) : slice(z, axis, Dim::of(0), by);
    Complex left = slice(z, axis, Dim::of(0), rest), right = slice(z, axis, by, n);
    Complex combined = op(left, right);
    z = reverse ? concat({combined, kept}, axis) : concat({kept, combined}, axis);
  }
  return z;
}

// The first element is taken as it is: 1 times an infinite number is no number.
Complex by_scan(Lowering& at, const Complex& z, int64_t axis, bool reverse, const Combine& op) {
  OnnxBuilder& b = at.b;
  std::vector<Dim> row(z.dims().begin(), z.dims().end());
  row.erase(row.begin() + axis);
  const Type* type = b.types().tensor(z.re.dtype(), row);
  const Type* flag = b.types().scalar(DType::kBool);
  Graph& body = at.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    auto input = [&](const Type* t) { return Num(inside, g.add_input({}, t)); };
    Num is_first = input(flag), re = input(type), im = input(type), next_re = input(type), next_im = input(type);
    Complex next(next_re, next_im), both = where(is_first, next, op({re, im}, next));
    g.add_output(*inside.b.scalar_int(DType::kBool, 0), {}, flag);
    for (int times = 0; times < 2; ++times) {
      g.add_output(*both.re.value(), {}, type);
      g.add_output(*both.im->value(), {}, type);
    }
  });
  onnx_attrs::Scan attrs{.num_scan_inputs = 2, .scan_input_axes = {axis, axis}, .scan_output_axes = {axis, axis}};
  if (reverse) attrs.scan_input_directions = attrs.scan_output_directions = {1, 1};
  Value* zero = at.zeros(z.re.dtype(), row);
  Node& scan = b.Scan({b.scalar_int(DType::kBool, 1), zero, zero, z.re.value(), z.im->value()}, body, attrs);
  return {Num(at, scan.result(3)), Num(at, scan.result(4))};
}

std::vector<Value*> cumulative(Lowering& at, const Combine& op) {
  Complex z = operand(at, 0);
  int64_t axis = at.int_param("axis");
  bool reverse = at.bool_param("reverse", false);
  Dim size = z.dim(axis);
  return {result(at, size.is_int() ? by_steps(z, axis, size.value(), reverse, op) : by_scan(at, z, axis, reverse, op))};
}

// The sum of the exponentials, less the larger number; the imaginary part lies between -pi and pi.
Complex log_add_exp(const Complex& z, const Complex& w) {
  Complex large = extreme(z, w, true);
  Complex sum = large + log1p(exp(z + w - large * 2));
  Num turns = floor((imag(sum) + kPi) * (0.5 / kPi));
  return {real(sum), imag(sum) - turns * (2 * kPi)};
}

// The product along an axis, by folding the upper half on the lower.
Complex fold_axis(Lowering& at, Complex z, int64_t axis) {
  Dim size = z.dim(axis);
  if (!size.is_int()) {
    Complex products = by_scan(at, z, axis, false, [](const Complex& a, const Complex& b) { return a * b; });
    return slice(products, axis, at.b.dims().sub(size, Dim::of(1)), size);
  }
  if (size.value() == 0) {
    std::vector<Dim> dims(z.dims().begin(), z.dims().end());
    dims[static_cast<size_t>(axis)] = Dim::of(1);
    Num one = expand(Num(at, at.b.scalar(z.re.dtype(), 1)), dims);
    return {one, full_like(one, 0)};
  }
  for (int64_t n = size.value(); n > 1;) {
    int64_t half = n / 2;
    Complex folded = slice(z, axis, Dim::of(0), Dim::of(half)) * slice(z, axis, Dim::of(half), Dim::of(2 * half));
    z = n % 2 == 1 ? concat({folded, slice(z, axis, Dim::of(n - 1), Dim::of(n))}, axis) : folded;
    n = half + n % 2;
  }
  return z;
}

}  // namespace

std::vector<Value*> complex_reduce_prod(Lowering& at) {
  Complex z = operand(at, 0);
  for (int64_t axis : at.ints_param("axes")) z = fold_axis(at, z, axis);
  return {result(at, reshape(z, at.out_dims()))};
}

std::vector<Value*> complex_cumprod(Lowering& at) {
  return cumulative(at, [](const Complex& z, const Complex& w) { return z * w; });
}
std::vector<Value*> complex_cummax(Lowering& at) {
  return cumulative(at, [](const Complex& z, const Complex& w) { return extreme(z, w, true); });
}
std::vector<Value*> complex_cummin(Lowering& at) {
  return cumulative(at, [](const Complex& z, const Complex& w) { return extreme(z, w, false); });
}
std::vector<Value*> complex_cumlogsumexp(Lowering& at) { return cumulative(at, log_add_exp); }

Complex larger(const Complex& z, const Complex& w) { return extreme(z, w, true); }
Complex smaller(const Complex& z, const Complex& w) { return extreme(z, w, false); }

}  // namespace sardonyx
