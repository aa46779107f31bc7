// Arithmetic, comparisons, logic and bit operations.
#include "eval/elementwise.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace sardonyx::eval {

void require_same_dtype(const Call& c, size_t i, size_t j) {
  if (c.in(i).dtype() == c.in(j).dtype()) return;
  c.fail(fmt::format("operands {} and {} have element types {} and {}, expected the same", i, j, to_string(c.in(i).dtype()),
                     to_string(c.in(j).dtype())));
}

Array second_operand(Call& c) {
  const Array& a = c.in(0);
  const Array& b = c.in(1);
  const auto axis = c.version() < 7 ? c.maybe_int("axis") : std::nullopt;
  if (!axis || b.rank() >= a.rank()) return b;
  std::vector<int64_t> shape(b.shape());
  const size_t first = c.axis(*axis, a.rank());
  while (shape.size() + first < a.rank()) shape.push_back(1);
  return c.reshaped(b, std::move(shape));
}

namespace {

template <class F>
void arithmetic(Call& c, F f) {
  require_same_dtype(c, 0, 1);
  c.set(0, map2(c, c.in(0), second_operand(c), f));
}

template <class F>
void variadic(Call& c, F f) {
  Array sum = c.in(0);
  for (size_t i = 1; i < c.num_inputs(); ++i) {
    require_same_dtype(c, 0, i);
    sum = map2(c, sum, c.in(i), f);
  }
  c.set(0, sum);
}

template <class F>
void comparison(Call& c, F f) {
  require_same_dtype(c, 0, 1);
  const Array& a = c.in(0);
  const Array b = second_operand(c);
  switch (compute_class(a.dtype())) {
    case Compute::kF32: return c.set(0, map2_as<float, int64_t>(c, a, b, DType::kBool, f));
    case Compute::kF64: return c.set(0, map2_as<double, int64_t>(c, a, b, DType::kBool, f));
    case Compute::kI64: return c.set(0, map2_as<int64_t, int64_t>(c, a, b, DType::kBool, f));
    case Compute::kU64: return c.set(0, map2_as<uint64_t, int64_t>(c, a, b, DType::kBool, f));
    default: c.fail("expected numbers, found elements of " + std::string(to_string(a.dtype())));
  }
}

template <class F>
void logic(Call& c, F f) {
  for (size_t i = 0; i < 2; ++i) c.require(c.in(i).dtype() == DType::kBool, "logic needs elements of bool");
  c.set(0, map2_as<int64_t, int64_t>(c, c.in(0), second_operand(c), DType::kBool, f));
}

template <class F>
void bitwise(Call& c, F f) {
  require_same_dtype(c, 0, 1);
  c.require(is_integer(c.dtype()), "bitwise operators need integers");
  c.set(0, map2_as<uint64_t, uint64_t>(c, c.in(0), c.in(1), c.dtype(), f));
}

// Computes in unsigned arithmetic where signed would overflow: integers wrap.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;

template <class T>
T divide(const Call& c, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) {
      if (c.run.folding) c.fail("integer division by zero");
      return 0;
    }
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  }
  return a / b;
}

template <class T>
T modulo(const Call& c, T a, T b, bool fmod) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) {
      if (c.run.folding) c.fail("integer division by zero");
      return 0;
    }
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    const T r = a % b;
    return !fmod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    const T r = std::fmod(a, b);
    return !fmod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}

template <class T>
T wrapping_power(T base, T exponent) {
  if (std::is_signed_v<T> && exponent < 0) {
    if (base == 1) return 1;
    if (base == static_cast<T>(-1)) return exponent % 2 == 0 ? 1 : static_cast<T>(-1);
    return 0;
  }
  Wrapping<T> result = 1, b = static_cast<Wrapping<T>>(base);
  for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= b;
    b *= b;
  }
  return static_cast<T>(result);
}

}  // namespace

namespace kernels {

void Add(Call& c) {
  arithmetic(c, []<class T>(T a, T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b)); });
}
void Sub(Call& c) {
  arithmetic(c, []<class T>(T a, T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b)); });
}
void Mul(Call& c) {
  arithmetic(c, []<class T>(T a, T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b)); });
}
void Div(Call& c) {
  arithmetic(c, [&]<class T>(T a, T b) { return divide(c, a, b); });
}
void Mod(Call& c) {
  const bool fmod = c.int_attr("fmod", 0) != 0;
  if (is_float(c.dtype()) && c.dtype() != DType::kF64) {  // exact in f64
    require_same_dtype(c, 0, 1);
    return c.set(
        0, map2_as<double, double>(c, c.in(0), c.in(1), c.dtype(), [&](double a, double b) { return modulo(c, a, b, fmod); }));
  }
  arithmetic(c, [&]<class T>(T a, T b) { return modulo(c, a, b, fmod); });
}

// The result has the base's dtype. Integer bases with integer exponents wrap; all others are computed in f64.
void Pow(Call& c) {
  const Array& a = c.in(0);
  const Array b = second_operand(c);
  if (!is_float(a.dtype()) && !is_float(b.dtype())) {
    if (is_unsigned(a.dtype())) {
      return c.set(
          0, map2_as<uint64_t, uint64_t>(c, a, b, a.dtype(), [](uint64_t x, uint64_t y) { return wrapping_power(x, y); }));
    }
    return c.set(0, map2_as<int64_t, int64_t>(c, a, b, a.dtype(), [](int64_t x, int64_t y) { return wrapping_power(x, y); }));
  }
  if (c.run.folding && a.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  c.set(0, map2_as<double, double>(c, a, b, a.dtype(), [](double x, double y) { return std::pow(x, y); }));
}

void Sum(Call& c) {
  variadic(c, []<class T>(T a, T b) { return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b)); });
}
void Mean(Call& c) {
  Sum(c);
  const auto n = static_cast<double>(c.num_inputs());
  c.set(0, map_as<double>(c, *c.results[0].array(), c.dtype(), [n](double x) { return x / n; }));
}
// NaN on either side gives NaN, as in NumPy's maximum.
void Max(Call& c) {
  variadic(c, []<class T>(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return a < b ? b : a;
  });
}
void Min(Call& c) {
  variadic(c, []<class T>(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return b < a ? b : a;
  });
}
void PRelu(Call& c) {
  Array slope = c.in(1);
  const Array& x = c.in(0);
  if (c.version() < 7 && slope.rank() == 1 && x.rank() > 1 && slope.size() > 1) {  // one slope per channel
    std::vector<int64_t> shape(x.rank() - 1, 1);
    shape[0] = slope.size();
    slope = c.reshaped(slope, std::move(shape));
  }
  if (broadcast_shapes(x.shape(), slope.shape()) != x.shape()) c.fail("the slope must broadcast to X");
  c.set(0, map2(c, x, slope, []<class T>(T a, T b) {
          return a < 0 ? static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b)) : a;
        }));
}

void Equal(Call& c) {
  if (c.dtype() == DType::kString) {
    require_same_dtype(c, 0, 1);
    std::vector<int64_t> shape = broadcast_shapes(c.in(0).shape(), c.in(1).shape());
    const Array a = c.in(0).broadcast_to(shape), b = c.in(1).broadcast_to(shape);
    Array y = c.make(DType::kBool, std::move(shape));
    for (int64_t i = 0; i < y.size(); ++i) y.as<uint8_t>()[i] = a.string_at(i) == b.string_at(i);
    return c.set(0, y);
  }
  comparison(c, [](auto a, auto b) { return a == b; });
}
void Less(Call& c) {
  comparison(c, [](auto a, auto b) { return a < b; });
}
void LessOrEqual(Call& c) {
  comparison(c, [](auto a, auto b) { return a <= b; });
}
void Greater(Call& c) {
  comparison(c, [](auto a, auto b) { return a > b; });
}
void GreaterOrEqual(Call& c) {
  comparison(c, [](auto a, auto b) { return a >= b; });
}

void And(Call& c) {
  logic(c, [](int64_t a, int64_t b) { return a & b; });
}
void Or(Call& c) {
  logic(c, [](int64_t a, int64_t b) { return a | b; });
}
void Xor(Call& c) {
  logic(c, [](int64_t a, int64_t b) { return a ^ b; });
}
void Not(Call& c) {
  c.require(c.dtype() == DType::kBool, "logic needs elements of bool");
  c.set(0, map_as<int64_t>(c, c.in(0), DType::kBool, [](int64_t a) { return a ^ 1; }));
}

void BitwiseAnd(Call& c) {
  bitwise(c, [](uint64_t a, uint64_t b) { return a & b; });
}
void BitwiseOr(Call& c) {
  bitwise(c, [](uint64_t a, uint64_t b) { return a | b; });
}
void BitwiseXor(Call& c) {
  bitwise(c, [](uint64_t a, uint64_t b) { return a ^ b; });
}
void BitwiseNot(Call& c) {
  c.require(is_integer(c.dtype()), "bitwise operators need integers");
  c.set(0, map_as<uint64_t>(c, c.in(0), c.dtype(), [](uint64_t a) { return ~a; }));
}
// A shift by the width or more, or by a negative count, shifts everything out. Right shifts of signed
// integers fill with the sign.
void BitShift(Call& c) {
  require_same_dtype(c, 0, 1);
  c.require(is_integer(c.dtype()), "BitShift needs integers");
  const auto bits = static_cast<int64_t>(bit_width(c.dtype()));
  const bool left = c.string_attr("direction", "") == "LEFT";
  if (is_signed(c.dtype())) {
    return c.set(0, map2_as<int64_t, int64_t>(c, c.in(0), c.in(1), c.dtype(), [=](int64_t a, int64_t b) -> int64_t {
                   if (b < 0 || b >= bits) return left || a >= 0 ? 0 : -1;
                   return left ? static_cast<int64_t>(static_cast<uint64_t>(a) << b) : a >> b;
                 }));
  }
  bitwise(c, [=](uint64_t a, uint64_t b) { return b >= static_cast<uint64_t>(bits) ? 0 : left ? a << b : a >> b; });
}

}  // namespace kernels

// --- Cast

namespace {

// Formats strings as NumPy does.
std::string text_of(const Array& x, int64_t offset) {
  double d = 0;
  d = *load<double>(x, offset, 1, 1, &d);
  if (x.dtype() == DType::kBool) return d != 0 ? "True" : "False";
  if (is_integer(x.dtype())) {
    if (x.dtype() == DType::kU64) return fmt::format("{}", x.as<uint64_t>()[offset]);
    int64_t v = 0;
    return fmt::format("{}", *load<int64_t>(x, offset, 1, 1, &v));
  }
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-INF" : "INF";
  std::string s = x.dtype() == DType::kF64 ? fmt::format("{}", d) : fmt::format("{}", static_cast<float>(d));
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

double parse_number(const Call& c, const std::string& s) {
  std::string lower;
  for (char ch : s) lower += static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch + 32 : ch);
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  char* end = nullptr;
  const double d = std::strtod(lower.c_str(), &end);
  if (end == lower.c_str() || *end != 0) c.fail(fmt::format("the string \"{}\" is not a number", s));
  return d;
}

// The largest finite value of a small float dtype.
double largest(DType t) {
  switch (t) {
    case DType::kF8E4M3FN: return 448;
    case DType::kF8E4M3FNUZ: return 240;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return 57344;
    default: return std::numeric_limits<double>::infinity();
  }
}

Array cast_to_e8m0(Call& c, const Array& x, bool saturate, const std::string& mode) {
  Array y = c.make(DType::kF8E8M0, x.shape());
  const std::vector<double> all = load_all<double>(x);
  auto* to = y.as<uint8_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    const double v = std::fabs(all[i]);
    if (std::isnan(v)) {
      to[i] = 0xff;
    } else if (v == 0) {
      to[i] = 0;
    } else if (std::isinf(v)) {
      to[i] = saturate ? 0xfe : 0xff;
    } else {
      int e = 0;
      const double m = std::frexp(v, &e);  // v = m * 2^e, m in [0.5, 1)
      int code = e - 1 + 127;
      if (m > 0.5 && (mode == "up" || (mode == "nearest" && m >= 0.75))) ++code;
      if (code > 0xfe) {
        to[i] = saturate ? 0xfe : 0xff;
      } else {
        to[i] = static_cast<uint8_t>(std::max(code, 0));
      }
    }
  }
  return y;
}

}  // namespace

Array cast(Call& c, const Array& x, DType to, bool saturate) {
  const DType from = x.dtype();
  if (from == to) return x;
  if (from == DType::kString) {
    Array y = c.make(to, x.shape());
    for (int64_t i = 0; i < x.size(); ++i) {
      const std::string& s = x.string_at(i);
      if (is_integer(to) && s.find_first_of(".eEnNiI") == std::string::npos) {
        const int64_t v =
            static_cast<int64_t>(to == DType::kU64 ? std::strtoull(s.c_str(), nullptr, 10)
                                                   : static_cast<unsigned long long>(std::strtoll(s.c_str(), nullptr, 10)));
        parse_number(c, s);
        store<int64_t>(y, i, 1, &v);
      } else {
        const double v = parse_number(c, s);
        store<double>(y, i, 1, &v);
      }
    }
    return y;
  }
  if (to == DType::kString) {
    Array y = c.make(to, x.shape());
    const Array d = c.dense(x);
    for (int64_t i = 0; i < d.size(); ++i) y.as<std::string>()[i] = text_of(d, i);
    return y;
  }
  if (is_complex(from) || is_complex(to))
    return map_as<std::complex<double>>(c, x, to, [](std::complex<double> v) { return v; });
  if (is_float(from)) {
    if (to == DType::kF8E8M0) return cast_to_e8m0(c, x, saturate, c.string_attr("round_mode", "up"));
    if (!is_float(to)) {
      if (c.run.folding && to != DType::kBool) {
        // A value out of range is undefined, so it is not folded. Processors do agree on the least integer
        // for values below the range of i32 and i64.
        const int width = bit_width(to);
        const bool has_least = is_signed(to) && width >= 32;
        const double high = std::ldexp(1.0, is_signed(to) ? width - 1 : width), low = is_signed(to) ? -high : 0;
        for (double d : load_all<double>(x)) {
          const double whole = std::trunc(d);
          if (!(whole < high && (whole >= low || has_least))) c.fail("a number is out of the integers' range");
        }
      }
      // Fractions are dropped. 32- and 64-bit integers saturate; narrower integers take the low bits of the
      // saturated value, as processors do.
      if (to == DType::kBool || bit_width(to) >= 32) return map_as<double>(c, x, to, [](double v) { return v; });
      return map_as<int64_t>(c, x, to, [](int64_t v) { return v; });
    }
    const bool halves = (from == DType::kF32 && to == DType::kF16) || (from == DType::kF16 && to == DType::kF32);
    if (halves) return map_as<float>(c, x, to, [](float v) { return v; });
    const double limit = largest(to);
    if (saturate && std::isfinite(limit)) {
      return map_as<double>(c, x, to, [limit](double v) { return v > limit ? limit : v < -limit ? -limit : v; });
    }
    return map_as<double>(c, x, to, [](double v) { return v; });
  }
  if (to == DType::kF8E8M0) return cast_to_e8m0(c, x, saturate, c.string_attr("round_mode", "up"));
  if (is_unsigned(from)) return map_as<uint64_t>(c, x, to, [](uint64_t v) { return v; });
  return map_as<int64_t>(c, x, to, [](int64_t v) { return v; });
}

namespace kernels {

void Cast(Call& c) {
  DType to;
  if (c.version() < 6) {
    const auto named = parse_dtype([&] {
      std::string s = c.string_attr("to", "");
      for (char& ch : s) ch = static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch + 32 : ch);
      return s == "float" ? std::string("float32") : s == "double" ? std::string("float64") : s;
    }());
    c.require(named.has_value(), "unknown target dtype of a cast");
    to = *named;
  } else {
    to = static_cast<DType>(c.int_attr("to"));
  }
  c.set(0, cast(c, c.in(0), to, c.int_attr("saturate", 1) != 0));
}
void CastLike(Call& c) { c.set(0, cast(c, c.in(0), c.in(1).dtype(), c.int_attr("saturate", 1) != 0)); }

void BitCast(Call& c) {
  const auto to = static_cast<DType>(c.int_attr("to"));
  const Array x = c.dense(0);
  c.require(bit_width(x.dtype()) == bit_width(to), "BitCast needs element types of one size");
  if (bit_width(to) < 8) {  // one byte per element, integers sign-extended
    Array y = c.make(to, x.shape());
    const int bits = bit_width(to);
    for (int64_t i = 0; i < x.size(); ++i) {
      unsigned u = x.as<uint8_t>()[i] & ((1u << bits) - 1);
      if (is_signed(to) && (u >> (bits - 1)) != 0) u |= ~0u << bits;
      y.as<uint8_t>()[i] = static_cast<uint8_t>(u);
    }
    return c.set(0, y);
  }
  c.set(0, Array(to, x.shape(), const_cast<std::byte*>(x.data()), x.owner()));
}

}  // namespace kernels
}  // namespace sardonyx::eval
