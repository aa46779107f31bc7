// Elementwise functions of one operand, computed in f64 and rounded once, except where f32 is exact.
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

void in_double(Call& c, double (*f)(double)) { c.set(0, map_double(c, c.in(0), f)); }

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// Computes comparisons and products with attributes in f32 for f32 operands; the attributes take part as f32.
template <class F>
void in_kind(Call& c, F f) {
  c.set(0, map1(c, c.in(0), f));
}

}  // namespace

namespace kernels {

void Sqrt(Call& c) {  // rounded once from f64: right for every narrower type; f64 itself is exact by IEEE
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [](double x) { return std::sqrt(x); }));
}
void Reciprocal(Call& c) {
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [](double x) { return 1 / x; }));
}
void Exp(Call& c) {
  in_double(c, [](double x) { return std::exp(x); });
}
void Log(Call& c) {
  in_double(c, [](double x) { return std::log(x); });
}
void Sin(Call& c) {
  in_double(c, [](double x) { return std::sin(x); });
}
void Cos(Call& c) {
  in_double(c, [](double x) { return std::cos(x); });
}
void Tan(Call& c) {
  in_double(c, [](double x) { return std::tan(x); });
}
void Asin(Call& c) {
  in_double(c, [](double x) { return std::asin(x); });
}
void Acos(Call& c) {
  in_double(c, [](double x) { return std::acos(x); });
}
void Atan(Call& c) {
  in_double(c, [](double x) { return std::atan(x); });
}
void Sinh(Call& c) {
  in_double(c, [](double x) { return std::sinh(x); });
}
void Cosh(Call& c) {
  in_double(c, [](double x) { return std::cosh(x); });
}
void Tanh(Call& c) {
  in_double(c, [](double x) { return std::tanh(x); });
}
void Asinh(Call& c) {
  in_double(c, [](double x) { return std::asinh(x); });
}
void Acosh(Call& c) {
  in_double(c, [](double x) { return std::acosh(x); });
}
void Atanh(Call& c) {
  in_double(c, [](double x) { return std::atanh(x); });
}
void Erf(Call& c) {
  in_double(c, [](double x) { return std::erf(x); });
}
void Sigmoid(Call& c) { in_double(c, sigmoid); }
void Softplus(Call& c) { in_double(c, softplus); }
void Mish(Call& c) {
  in_double(c, [](double x) { return x * std::tanh(softplus(x)); });
}
void Softsign(Call& c) {
  in_double(c, [](double x) { return x / (1 + std::fabs(x)); });
}
void HardSwish(Call& c) {
  in_double(c, [](double x) { return x * std::fmax(0, std::fmin(1, x / 6 + 0.5)); });
}
void Gelu(Call& c) {
  // 1 + erf(-5) would lose most digits, so use erfc. For the same reason 1 + tanh(u) is computed as 2
  // sigmoid(2 u).
  if (c.string_attr("approximate", "none") == "tanh") {
    return in_double(c, [](double x) { return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); });
  }
  in_double(c, [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); });
}
void Swish(Call& c) {
  const double alpha = c.float_attr("alpha", 1);
  c.set(0, map_double(c, c.in(0), [=](double x) { return x * sigmoid(alpha * x); }));
}
void Elu(Call& c) {
  const double alpha = c.float_attr("alpha", 1);
  c.set(0, map_double(c, c.in(0), [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; }));
}
void Celu(Call& c) {
  const double alpha = c.float_attr("alpha", 1);
  c.set(0, map_double(c, c.in(0), [=](double x) {
          const double y = alpha * std::expm1(x / alpha);  // keeps NaN, including that of x / 0
          return (x < 0 ? 0 : x) + (y > 0 ? 0 : y);
        }));
}
void Selu(Call& c) {
  const double alpha = c.float_attr("alpha", 1.67326319217681884765625);
  const double gamma = c.float_attr("gamma", 1.05070102214813232421875);
  c.set(0, map_double(c, c.in(0), [=](double x) { return x > 0 ? gamma * x : gamma * alpha * std::expm1(x); }));
}
void LeakyRelu(Call& c) {
  const double alpha = c.float_attr("alpha", 0.01);
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [=](double x) { return x < 0 ? alpha * x : x; }));
}
void ThresholdedRelu(Call& c) {
  const double alpha = c.float_attr("alpha", 1);
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [=](double x) { return x > alpha ? x : 0; }));
}
void HardSigmoid(Call& c) {
  const double alpha = c.float_attr("alpha", 0.2), beta = c.float_attr("beta", 0.5);
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [=](double x) {
          const double y = alpha * x + beta;
          return y < 0 ? 0 : y > 1 ? 1 : y;  // keeps NaN
        }));
}
void Shrink(Call& c) {
  const double bias = c.float_attr("bias", 0), lambd = c.float_attr("lambd", 0.5);
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [=](double x) { return x < -lambd ? x + bias : x > lambd ? x - bias : 0; }));
}

void Relu(Call& c) {
  in_kind(c, []<class T>(T x) { return x < 0 ? T{0} : x; });  // keeps NaN, as Max does
}
void Abs(Call& c) {
  in_kind(c, []<class T>(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
    else
      return x;
  });
}
void Neg(Call& c) {
  in_kind(c, []<class T>(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  });
}
void Sign(Call& c) {
  in_kind(c, []<class T>(T x) { return x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : x; });  // keeps -0 and NaN
}
void Ceil(Call& c) {
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [](double x) { return std::ceil(x); }));
}
void Floor(Call& c) {
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [](double x) { return std::floor(x); }));
}
void Round(Call& c) {  // ties to even
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [](double x) { return std::nearbyint(x); }));
}
void IsNaN(Call& c) {
  c.set(0, map_as<double>(c, c.in(0), DType::kBool, [](double x) { return std::isnan(x) ? 1 : 0; }));
}
void IsInf(Call& c) {
  const bool negative = c.int_attr("detect_negative", 1) != 0, positive = c.int_attr("detect_positive", 1) != 0;
  c.set(0, map_as<double>(c, c.in(0), DType::kBool,
                          [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive) ? 1 : 0; }));
}

// The largest finite number of a float dtype. 0 for integers, where every operand is within range.
double largest_finite(DType t) {
  switch (t) {
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF32: return std::numeric_limits<float>::max();
    case DType::kBF16: return std::ldexp(255.0, 120);
    case DType::kF16: return 65504;
    default: return 0;
  }
}

// A bound that is not given is the largest or the lowest finite number, so that infinities become finite. The
// standard says so, and onnxruntime does it.
void Clip(Call& c) {
  Array x = c.in(0);
  const double end = largest_finite(x.dtype());
  auto above = []<class T>(T a, T low) { return a < low ? low : a; };
  auto below = []<class T>(T a, T high) { return high < a ? high : a; };
  const auto bound = [&](size_t slot, std::string_view name, double otherwise) -> std::optional<Array> {
    if (c.version() >= 11 && c.has(slot)) {
      if (c.in(slot).size() != 1) c.fail("the limits must be scalars");
      return c.reshaped(c.in(slot), {});
    }
    const auto given = c.version() < 11 ? c.maybe_float(name) : std::nullopt;
    if (!given && end == 0) return std::nullopt;
    return c.full(x.dtype(), {}, given ? *given : otherwise);
  };
  if (const auto low = bound(1, "min", -end)) x = map2(c, x, *low, above);
  if (const auto high = bound(2, "max", end)) x = map2(c, x, *high, below);  // max wins when the bounds cross
  c.set(0, x);
}

}  // namespace kernels
}  // namespace sardonyx::eval
