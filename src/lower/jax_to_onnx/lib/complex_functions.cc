// Functions of complex numbers z = x + iy, in terms of their real and imaginary parts. Sources: NIST's
// Digital Library of Mathematical Functions, 4.2 to 4.37, for definitions and branch cuts; W. Kahan, "Branch
// cuts for complex elementary functions" (1987), for the inverse functions.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/reductions/reduction.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;

using Function = Complex (*)(const Complex&);

std::vector<Value*> of_one(Lowering& ctx, Function f) { return {result(ctx, f(operand(ctx, 0)))}; }

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

// log(1 + z): |1 + z|^2 - 1 = x (x + 2) + y^2 has no cancellation for small z.
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

// Computes the part of larger size first, and the other from their product y / 2.
Complex sqrt(const Complex& z) {
  Num x = real(z), y = imag(z);
  Num large = sqrt((abs(z) + abs(x)) * 0.5);
  Num is_zero = eq(large, 0);
  Num small = where(is_zero, large, abs(y) / (where(is_zero, 1, large) * 2));
  Num right = x >= 0;
  Num negative = Num(y.scope(), sign_bit(y.ctx(), y.value()));
  Num im = where(right, small, large);
  return {where(right, large, small), where(negative, -im, im)};
}

Complex sin(const Complex& z) { return {sin(real(z)) * cosh(imag(z)), cos(real(z)) * sinh(imag(z))}; }
Complex cos(const Complex& z) { return {cos(real(z)) * cosh(imag(z)), -(sin(real(z)) * sinh(imag(z)))}; }
Complex sinh(const Complex& z) { return {sinh(real(z)) * cos(imag(z)), cosh(real(z)) * sin(imag(z))}; }
Complex cosh(const Complex& z) { return {cosh(real(z)) * cos(imag(z)), sinh(real(z)) * sin(imag(z))}; }

// (sinh 2x + i sin 2y) / (cosh 2x + cos 2y), both divided by e^2|x|: e = e^-2|x| never overflows.
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

// Kahan's formula: the imaginary part is a cross product in which nothing cancels, and the two roots keep the
// branch cuts.
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

std::vector<Value*> complex_acos(Lowering& ctx) { return of_one(ctx, acos); }
std::vector<Value*> complex_acosh(Lowering& ctx) { return of_one(ctx, acosh); }
std::vector<Value*> complex_asin(Lowering& ctx) { return of_one(ctx, asin); }
std::vector<Value*> complex_asinh(Lowering& ctx) { return of_one(ctx, asinh); }
std::vector<Value*> complex_atan(Lowering& ctx) { return of_one(ctx, atan); }
std::vector<Value*> complex_atanh(Lowering& ctx) { return of_one(ctx, atanh); }
std::vector<Value*> complex_cos(Lowering& ctx) { return of_one(ctx, cos); }
std::vector<Value*> complex_cosh(Lowering& ctx) { return of_one(ctx, cosh); }
std::vector<Value*> complex_exp(Lowering& ctx) { return of_one(ctx, exp); }
std::vector<Value*> complex_expm1(Lowering& ctx) { return of_one(ctx, expm1); }
std::vector<Value*> complex_log(Lowering& ctx) { return of_one(ctx, log); }
std::vector<Value*> complex_log1p(Lowering& ctx) { return of_one(ctx, log1p); }
std::vector<Value*> complex_sin(Lowering& ctx) { return of_one(ctx, sin); }
std::vector<Value*> complex_sinh(Lowering& ctx) { return of_one(ctx, sinh); }
std::vector<Value*> complex_sqrt(Lowering& ctx) { return of_one(ctx, sqrt); }
std::vector<Value*> complex_tan(Lowering& ctx) { return of_one(ctx, tan); }
std::vector<Value*> complex_tanh(Lowering& ctx) { return of_one(ctx, tanh); }
std::vector<Value*> complex_abs(Lowering& ctx) { return {abs(operand(ctx, 0)).value()}; }

std::vector<Value*> complex_exp2(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return exp(z * kLn2); });
}
std::vector<Value*> complex_log2(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return log(z) * (1 / kLn2); });
}
std::vector<Value*> complex_rsqrt(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return inverse(sqrt(z)); });
}
std::vector<Value*> complex_logistic(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return inverse(exp(-z) + 1); });
}
std::vector<Value*> complex_square(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return z * z; });
}
std::vector<Value*> complex_conj(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) { return conj(z); });
}
std::vector<Value*> complex_sign(Lowering& ctx) {
  return of_one(ctx, [](const Complex& z) {
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

// Operand i, as a real number if its imaginary part is known to be zero: real factors are common.
Complex factor(Lowering& ctx, size_t i) {
  Complex z = operand(ctx, i);
  return z.im && is_zero(*z.im) ? Complex(z.re) : z;
}

bool is_imaginary(const Complex& z) { return z.im && is_zero(z.re); }

}  // namespace

std::vector<Value*> complex_mul(Lowering& ctx) {
  Complex z = factor(ctx, 0), w = factor(ctx, 1);
  if (is_imaginary(w)) std::swap(z, w);
  // iy w = i (y w)
  if (is_imaginary(z)) {
    Complex product = w * Complex(*z.im);
    return {join(w.is_real() ? Complex(product.re.with(ctx.zeros(product.re.dtype(), product.dims())), product.re)
                             : times_i(product))};
  }
  return {result(ctx, z * w)};
}
std::vector<Value*> complex_div(Lowering& ctx) { return {result(ctx, operand(ctx, 0) / factor(ctx, 1))}; }

std::vector<Value*> complex_integer_pow(Lowering& ctx) {
  int64_t n = ctx.int_param("y");
  Complex z = operand(ctx, 0);
  return {result(ctx, n == 0 ? full_like(z, 1) : power(z, n))};
}

// exp(w log z); 0^0 = 1 and 0^w = 0 otherwise.
std::vector<Value*> complex_pow(Lowering& ctx) {
  Complex z = operand(ctx, 0), w = operand(ctx, 1);
  Num base_is_zero = eq(abs(z), 0), exponent_is_zero = eq(w.is_real() ? abs(w.re) : abs(w), 0);
  if (is_integer(w.re.dtype())) w = cast(w.re, z.re.dtype());
  Complex safe = where(base_is_zero, Complex(z.re.of(1)), z);
  Complex usual = exp(w * log(safe));
  usual = where(base_is_zero, Complex(z.re.of(0)), usual);
  return {result(ctx, where(exponent_is_zero, Complex(z.re.of(1)), usual))};
}

// The angle in the plane of two complex numbers: -i log((x + iy) / sqrt(x^2 + y^2)).
std::vector<Value*> complex_atan2(Lowering& ctx) {
  Complex y = operand(ctx, 0), x = operand(ctx, 1);
  return {result(ctx, over_i(log((x + times_i(y)) / sqrt(x * x + y * y))))};
}

namespace {

// The larger or smaller by real part, then by imaginary part; w if they cannot be compared, as in JAX.
Complex extreme(const Complex& z, const Complex& w, bool greatest) {
  Num first = greatest ? z.re > w.re : z.re < w.re, second = greatest ? *z.im > *w.im : *z.im < *w.im;
  return where(first | (eq(z.re, w.re) & second), z, w);
}

Complex reduced_to_extreme(Lowering& ctx, std::string_view op, double least) {
  Complex z = operand(ctx, 0);
  auto axes = ctx.ints_param("axes");
  auto over = [&](const Num& x, bool keepdims) { return x.with(reduce(ctx, op, x.value(), axes, keepdims)); };
  Num re = over(z.re, true);
  Num im = over(where(eq(z.re, re), *z.im, least), false);
  return {reshape(re, im.dims()), im};
}

}  // namespace

std::vector<Value*> complex_max(Lowering& ctx) { return {result(ctx, extreme(operand(ctx, 0), operand(ctx, 1), true))}; }
std::vector<Value*> complex_min(Lowering& ctx) { return {result(ctx, extreme(operand(ctx, 0), operand(ctx, 1), false))}; }
std::vector<Value*> complex_reduce_max(Lowering& ctx) {
  return {result(ctx, reduced_to_extreme(ctx, "ReduceMax", -std::numeric_limits<double>::infinity()))};
}
std::vector<Value*> complex_reduce_min(Lowering& ctx) {
  return {result(ctx, reduced_to_extreme(ctx, "ReduceMin", std::numeric_limits<double>::infinity()))};
}

// Compares real parts only, as XLA does on CPUs; complex_max and complex_min compare imaginary parts, too.
std::vector<Value*> complex_clamp(Lowering& ctx) {
  Complex low = operand(ctx, 0), z = operand(ctx, 1), high = operand(ctx, 2);
  Complex raised = where(low.re >= z.re, low, z);
  return {result(ctx, where(raised.re <= high.re, raised, high))};
}

std::vector<Value*> complex_eq(Lowering& ctx) {
  Complex z = operand(ctx, 0), w = operand(ctx, 1);
  return {(eq(z.re, w.re) & eq(*z.im, *w.im)).value()};
}
std::vector<Value*> complex_ne(Lowering& ctx) {
  Complex z = operand(ctx, 0), w = operand(ctx, 1);
  return {(!(eq(z.re, w.re) & eq(*z.im, *w.im))).value()};
}

std::vector<Value*> complex_real(Lowering& ctx) { return {operand(ctx, 0).re.value()}; }
std::vector<Value*> complex_imag(Lowering& ctx) { return {operand(ctx, 0).imaginary().value()}; }

// Operands may be narrower than the result. Concat does not broadcast, so the parts are expanded first.
std::vector<Value*> complex_of_parts(Lowering& ctx) {
  auto part = [&](size_t i) { return Num(ctx, ctx.expand(ctx.in(i), ctx.out_dims())); };
  return {join({part(0), part(1)})};
}

std::vector<Value*> complex_iota(Lowering& ctx) {
  auto dims = ctx.out_dims();
  auto axis = static_cast<size_t>(ctx.int_param("dimension"));
  Num re(ctx, ctx.iota(ctx.stored_out_type()->dtype(), dims[axis]));
  for (size_t i = axis + 1; i < dims.size(); ++i) re = unsqueeze(re, -1);
  re = expand(re, dims);
  return {join({re, full_like(re, 0)})};
}

std::vector<Value*> complex_convert(Lowering& ctx) {
  DType from = ctx.in_dtype(0), to = ctx.out_dtype();
  if (!is_complex(from)) {
    Num re(ctx, ctx.expand(ctx.cast(ctx.in(0), ctx.stored_out_type()->dtype()), ctx.out_dims()));
    return {join({re, full_like(re, 0)})};
  }
  if (is_complex(to)) return {ctx.cast(ctx.in(0), ctx.stored_out_type()->dtype())};
  return {ctx.cast(operand(ctx, 0).re.value(), to)};
}

namespace {

using Combine = std::function<Complex(const Complex&, const Complex&)>;

// x = op(x shifted, x) by 1, 2, 4, ... elements; elements without a partner stay.
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

// Takes the first element as it is: 1 times an infinite complex number is NaN.
Complex by_scan(Lowering& ctx, const Complex& z, int64_t axis, bool reverse, const Combine& op) {
  OnnxBuilder& b = ctx.b;
  std::vector<Dim> row(z.dims().begin(), z.dims().end());
  row.erase(row.begin() + axis);
  const Type* type = b.types().tensor(z.re.dtype(), row);
  const Type* flag = b.types().scalar(DType::kBool);
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
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
  Value* zero = ctx.zeros(z.re.dtype(), row);
  Node& scan = b.Scan({b.scalar_int(DType::kBool, 1), zero, zero, z.re.value(), z.im->value()}, body, attrs);
  return {Num(ctx, scan.result(3)), Num(ctx, scan.result(4))};
}

std::vector<Value*> cumulative(Lowering& ctx, const Combine& op) {
  Complex z = operand(ctx, 0);
  int64_t axis = ctx.int_param("axis");
  bool reverse = ctx.bool_param("reverse", false);
  Dim size = z.dim(axis);
  return {result(ctx, size.is_int() ? by_steps(z, axis, size.value(), reverse, op) : by_scan(ctx, z, axis, reverse, op))};
}

// log(exp(z) + exp(w)), computed relative to the larger number; the imaginary part is brought into [-pi, pi).
Complex log_add_exp(const Complex& z, const Complex& w) {
  Complex large = extreme(z, w, true);
  Complex sum = large + log1p(exp(z + w - large * 2));
  Num turns = floor((imag(sum) + kPi) * (0.5 / kPi));
  return {real(sum), imag(sum) - turns * (2 * kPi)};
}

// The product along an axis: multiplies the upper half into the lower half.
Complex fold_axis(Lowering& ctx, Complex z, int64_t axis) {
  Dim size = z.dim(axis);
  if (!size.is_int()) {
    Complex products = by_scan(ctx, z, axis, false, [](const Complex& a, const Complex& b) { return a * b; });
    return slice(products, axis, ctx.b.dims().sub(size, Dim::of(1)), size);
  }
  if (size.value() == 0) {
    std::vector<Dim> dims(z.dims().begin(), z.dims().end());
    dims[static_cast<size_t>(axis)] = Dim::of(1);
    Num one = expand(Num(ctx, ctx.b.scalar(z.re.dtype(), 1)), dims);
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

std::vector<Value*> complex_reduce_prod(Lowering& ctx) {
  Complex z = operand(ctx, 0);
  for (int64_t axis : ctx.ints_param("axes")) z = fold_axis(ctx, z, axis);
  return {result(ctx, reshape(z, ctx.out_dims()))};
}

std::vector<Value*> complex_cumprod(Lowering& ctx) {
  return cumulative(ctx, [](const Complex& z, const Complex& w) { return z * w; });
}
std::vector<Value*> complex_cummax(Lowering& ctx) {
  return cumulative(ctx, [](const Complex& z, const Complex& w) { return extreme(z, w, true); });
}
std::vector<Value*> complex_cummin(Lowering& ctx) {
  return cumulative(ctx, [](const Complex& z, const Complex& w) { return extreme(z, w, false); });
}
std::vector<Value*> complex_cumlogsumexp(Lowering& ctx) { return cumulative(ctx, log_add_exp); }

Complex larger(const Complex& z, const Complex& w) { return extreme(z, w, true); }
Complex smaller(const Complex& z, const Complex& w) { return extreme(z, w, false); }

}  // namespace sardonyx::jax_to_onnx
