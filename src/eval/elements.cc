#include "eval/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "ir/tensor/half.h"
#include "sardonyx/error.h"
#include "support/system/interrupt.h"

namespace sardonyx::eval {
namespace {

// --- conversions of half floats by their bits

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float v = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

// A double that rounds to any narrower format as the integer itself would: a sticky bit stands for the bits
// lost.
double sticky(uint64_t v) {
  if (v < (uint64_t{1} << 53)) return static_cast<double>(v);
  const int shift = 64 - 53 - std::countl_zero(v);
  const uint64_t kept = v >> shift;
  const bool lost = (v & ((uint64_t{1} << shift) - 1)) != 0;
  return std::ldexp(static_cast<double>(kept | (lost ? 1 : 0)), shift);
}
double sticky(int64_t v) { return v < 0 ? -sticky(~static_cast<uint64_t>(v) + 1) : sticky(static_cast<uint64_t>(v)); }

template <class T, class Element>
void load_as(const std::byte* base, int64_t offset, int64_t step, int64_t n, T* to) {
  const Element* from = reinterpret_cast<const Element*>(base) + offset;
  for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(from[i * step]);
}

template <class T>
T from_double(double d) {
  return convert<T>(d);
}

template <class T>
void load_real(const Array& a, int64_t offset, int64_t step, int64_t n, T* to) {
  const std::byte* base = a.data();
  switch (a.dtype()) {
    case DType::kF32: return load_as<T, float>(base, offset, step, n, to);
    case DType::kF64: return load_as<T, double>(base, offset, step, n, to);
    case DType::kI64: return load_as<T, int64_t>(base, offset, step, n, to);
    case DType::kI32: return load_as<T, int32_t>(base, offset, step, n, to);
    case DType::kI16: return load_as<T, int16_t>(base, offset, step, n, to);
    case DType::kI8:
    case DType::kI4:
    case DType::kI2: return load_as<T, int8_t>(base, offset, step, n, to);
    case DType::kU64: return load_as<T, uint64_t>(base, offset, step, n, to);
    case DType::kU32: return load_as<T, uint32_t>(base, offset, step, n, to);
    case DType::kU16: return load_as<T, uint16_t>(base, offset, step, n, to);
    case DType::kU8:
    case DType::kU6:
    case DType::kU4:
    case DType::kU3:
    case DType::kU2:
    case DType::kU1:
    case DType::kBool: return load_as<T, uint8_t>(base, offset, step, n, to);
    case DType::kF16: {
      const auto* from = reinterpret_cast<const uint16_t*>(base) + offset;
      if constexpr (std::is_same_v<T, float>) {
        if (step == 1)
          return halves_to_floats(reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to),
                                  static_cast<size_t>(n));
      }
      for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(half_to_float(from[i * step]));
      return;
    }
    case DType::kBF16: {
      const auto* from = reinterpret_cast<const uint16_t*>(base) + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(bfloat_to_float(from[i * step]));
      return;
    }
    case DType::kC64: {
      const auto* from = reinterpret_cast<const std::complex<float>*>(base) + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(from[i * step].real());
      return;
    }
    case DType::kC128: {
      const auto* from = reinterpret_cast<const std::complex<double>*>(base) + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(from[i * step].real());
      return;
    }
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
    case DType::kF4E2M1: {  // one code per byte: decode_element reads f4 in pairs, low half first
      for (int64_t i = 0; i < n; ++i) to[i] = from_double<T>(decode_element(a.dtype(), base + offset + i * step, 0));
      return;
    }
    default: break;
  }
  throw Error(ErrorCode::kInvalidModel, "expected numbers, found elements of " + std::string(to_string(a.dtype())));
}

template <class Element, class T>
void store_as(std::byte* base, int64_t offset, int64_t n, const T* from) {
  Element* to = reinterpret_cast<Element*>(base) + offset;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<Element>) {
      if constexpr (sizeof(Element) == 8) {
        to[i] = convert<Element>(from[i]);
      } else {
        const auto low = static_cast<double>(std::numeric_limits<Element>::min());
        const auto high = static_cast<double>(std::numeric_limits<Element>::max());
        const auto d = static_cast<double>(from[i]);
        to[i] = std::isnan(d) ? Element{0} : static_cast<Element>(d < low ? low : d > high ? high : d);
      }
    } else {
      to[i] = static_cast<Element>(from[i]);
    }
  }
}

template <class T>
double to_double(T v) {
  if constexpr (std::is_integral_v<T>) {
    return sticky(v);
  } else {
    return static_cast<double>(v);
  }
}

// Integers of fewer than 8 bits: the low bits of a byte, sign-extended.
template <class T>
void store_bits(Array& a, int64_t offset, int64_t n, const T* from) {
  const int bits = bit_width(a.dtype());
  const bool with_sign = is_signed(a.dtype());
  auto* to = reinterpret_cast<uint8_t*>(a.mutable_data()) + offset;
  for (int64_t i = 0; i < n; ++i) {
    int64_t v = 0;
    if constexpr (std::is_floating_point_v<T>) {
      const int64_t low = with_sign ? -(1 << (bits - 1)) : 0;
      const int64_t high = with_sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
      v = std::clamp(convert<int64_t>(from[i]), low, high);
    } else {
      v = static_cast<int64_t>(from[i]);
    }
    auto u = static_cast<unsigned>(v) & ((1u << bits) - 1);
    if (with_sign && (u >> (bits - 1)) != 0) u |= ~0u << bits;
    to[i] = static_cast<uint8_t>(u);
  }
}

}  // namespace

Compute compute_class(DType t) {
  if (t == DType::kF64) return Compute::kF64;
  if (is_float(t)) return Compute::kF32;
  if (is_unsigned(t)) return Compute::kU64;
  if (is_signed(t) || t == DType::kBool) return Compute::kI64;
  if (is_complex(t)) return Compute::kComplex;
  if (t == DType::kString) return Compute::kString;
  throw Error(ErrorCode::kInvalidModel, "cannot compute with elements of " + std::string(to_string(t)));
}

namespace {
template <class T>
bool is_native(DType t) {
  if constexpr (std::is_same_v<T, float>) return t == DType::kF32;
  if constexpr (std::is_same_v<T, double>) return t == DType::kF64;
  if constexpr (std::is_same_v<T, int64_t>) return t == DType::kI64;
  if constexpr (std::is_same_v<T, uint64_t>) return t == DType::kU64;
  return false;
}
}  // namespace

template <class T>
const T* load(const Array& a, int64_t offset, int64_t step, int64_t n, T* scratch) {
  check_interrupt();
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (a.dtype() == DType::kC128) {
      const auto* from = a.as<std::complex<double>>() + offset;
      for (int64_t i = 0; i < n; ++i) scratch[i] = from[i * step];
    } else if (a.dtype() == DType::kC64) {
      const auto* from = a.as<std::complex<float>>() + offset;
      for (int64_t i = 0; i < n; ++i) scratch[i] = std::complex<double>(from[i * step]);
    } else {
      std::vector<double> real(static_cast<size_t>(n));
      const double* r = load<double>(a, offset, step, n, real.data());
      for (int64_t i = 0; i < n; ++i) scratch[i] = r[i];
    }
    return scratch;
  } else {
    if (n == 0) return scratch;  // an empty array has no address
    if (step == 1 && is_native<T>(a.dtype())) return a.as<T>() + offset;
    load_real(a, offset, step, n, scratch);
    return scratch;
  }
}

template <class T>
void store(Array& a, int64_t offset, int64_t n, const T* from) {
  check_interrupt();
  std::byte* base = a.mutable_data();
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (a.dtype() == DType::kC128) {
      std::copy(from, from + n, a.as<std::complex<double>>() + offset);
    } else {
      auto* to = a.as<std::complex<float>>() + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = std::complex<float>(from[i]);
    }
  } else {
    switch (a.dtype()) {
      case DType::kF32: return store_as<float>(base, offset, n, from);
      case DType::kF64: return store_as<double>(base, offset, n, from);
      case DType::kI64: return store_as<int64_t>(base, offset, n, from);
      case DType::kI32: return store_as<int32_t>(base, offset, n, from);
      case DType::kI16: return store_as<int16_t>(base, offset, n, from);
      case DType::kI8: return store_as<int8_t>(base, offset, n, from);
      case DType::kU64: return store_as<uint64_t>(base, offset, n, from);
      case DType::kU32: return store_as<uint32_t>(base, offset, n, from);
      case DType::kU16: return store_as<uint16_t>(base, offset, n, from);
      case DType::kU8: return store_as<uint8_t>(base, offset, n, from);
      case DType::kBool: {
        auto* to = reinterpret_cast<uint8_t*>(base) + offset;
        for (int64_t i = 0; i < n; ++i) to[i] = from[i] != T{0} ? 1 : 0;
        return;
      }
      case DType::kU6:
      case DType::kU4:
      case DType::kI4:
      case DType::kU3:
      case DType::kU2:
      case DType::kI2:
      case DType::kU1: return store_bits(a, offset, n, from);
      case DType::kF16:
        if constexpr (std::is_same_v<T, float>)
          return floats_to_halves(reinterpret_cast<const std::byte*>(from), base + offset * 2, static_cast<size_t>(n));
        [[fallthrough]];
      case DType::kBF16: {
        for (int64_t i = 0; i < n; ++i) encode_element(a.dtype(), base, offset + i, to_double(from[i]));
        return;
      }
      case DType::kF8E4M3FN:
      case DType::kF8E4M3FNUZ:
      case DType::kF8E5M2:
      case DType::kF8E5M2FNUZ:
      case DType::kF8E8M0:
      case DType::kF4E2M1: {
        for (int64_t i = 0; i < n; ++i) {
          base[offset + i] = std::byte{0};
          encode_element(a.dtype(), base + offset + i, 0, to_double(from[i]));
        }
        return;
      }
      case DType::kC64: {
        auto* to = a.as<std::complex<float>>() + offset;
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
        return;
      }
      case DType::kC128: {
        auto* to = a.as<std::complex<double>>() + offset;
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(from[i]);
        return;
      }
      default: break;
    }
    throw Error(ErrorCode::kInvalidModel, "numbers cannot be stored as elements of " + std::string(to_string(a.dtype())));
  }
}

template <class T>
std::vector<T> load_all(const Array& a) {
  std::vector<T> out(static_cast<size_t>(a.size()));
  int64_t done = 0;
  walk<1>(a.shape(), {a.strides()}, [&](int64_t n, std::array<int64_t, 1> at, std::array<int64_t, 1> step) {
    const T* from = load<T>(a, at[0], step[0], n, out.data() + done);
    if (from != out.data() + done) std::copy(from, from + n, out.data() + done);
    done += n;
  });
  return out;
}

#define SX_INSTANTIATE(T)                                                 \
  template const T* load<T>(const Array&, int64_t, int64_t, int64_t, T*); \
  template void store<T>(Array&, int64_t, int64_t, const T*);             \
  template std::vector<T> load_all<T>(const Array&);
SX_INSTANTIATE(float)
SX_INSTANTIATE(double)
SX_INSTANTIATE(int64_t)
SX_INSTANTIATE(uint64_t)
SX_INSTANTIATE(std::complex<double>)
#undef SX_INSTANTIATE

namespace {

// Two dimensions that a copy exchanges: `columns` is contiguous in the target, `rows` in the source.
struct Swapped {
  size_t rows = 0, columns = 0;
};

std::optional<Swapped> swapped(const Array& from, const Array& to) {
  constexpr int64_t kLeast = 8;
  const auto side_by_side = [](const Array& a) {
    size_t d = a.rank();
    while (d > 0 && (a.shape()[d - 1] == 1 || a.strides()[d - 1] != 1)) --d;
    return d;  // the dimension plus one; 0 when there is none
  };
  const size_t rows = side_by_side(from), columns = side_by_side(to);
  if (rows == 0 || columns == 0 || rows == columns) return std::nullopt;
  if (from.shape()[rows - 1] < kLeast || from.shape()[columns - 1] < kLeast) return std::nullopt;
  return Swapped{rows - 1, columns - 1};
}

// Copies square by square, so that both sides stay in the cache.
template <class E>
void copy_swapped(const Array& from, Array& to, Swapped s) {
  constexpr int64_t kSquare = 32;
  const int64_t rows = from.shape()[s.rows], columns = from.shape()[s.columns];
  const int64_t source_step = from.strides()[s.columns], target_step = to.strides()[s.rows];
  std::vector<int64_t> others(from.shape().begin(), from.shape().end());
  others[s.rows] = others[s.columns] = 1;
  walk<2>(others, {from.strides(), to.strides()}, [&](int64_t n, std::array<int64_t, 2> at, std::array<int64_t, 2> step) {
    for (int64_t i = 0; i < n; ++i) {
      const E* source = from.as<E>() + at[0] + i * step[0];
      E* target = to.as<E>() + at[1] + i * step[1];
      for (int64_t r = 0; r < rows; r += kSquare) {
        const int64_t last_row = std::min(r + kSquare, rows);
        for (int64_t c = 0; c < columns; c += kSquare) {
          const int64_t last_column = std::min(c + kSquare, columns);
          for (int64_t row = r; row < last_row; ++row) {
            for (int64_t column = c; column < last_column; ++column)
              target[row * target_step + column] = source[column * source_step + row];
          }
        }
      }
    }
  });
}

}  // namespace

void copy_elements(const Array& from, Array& to) {
  const std::optional<Swapped> two = swapped(from, to);
  with_element(from.dtype(), [&]<class E>(E) {
    if (two) return copy_swapped<E>(from, to, *two);
    const E* source = from.as<E>();
    E* target = to.as<E>();
    walk<2>(from.shape(), {from.strides(), to.strides()},
            [&](int64_t n, std::array<int64_t, 2> at, std::array<int64_t, 2> step) {
              const E* s = source + at[0];
              E* t = target + at[1];
              if (step[0] == 1 && step[1] == 1) {
                std::copy(s, s + n, t);
              } else {
                for (int64_t i = 0; i < n; ++i) t[i * step[1]] = s[i * step[0]];
              }
            });
  });
}

std::vector<int64_t> broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  std::vector<int64_t> out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) {
      throw Error(ErrorCode::kInvalidModel, "shapes " + show(a) + " and " + show(b) + " do not broadcast");
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

int64_t product(std::span<const int64_t> dims) {
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) throw Error(ErrorCode::kInvalidModel, "the shape " + show(dims) + " has a negative size");
    if (__builtin_mul_overflow(n, d, &n)) throw Error(ErrorCode::kLimit, "a tensor of shape " + show(dims) + " is too large");
  }
  return n;
}

std::string show(std::span<const int64_t> shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? "," : "") + std::to_string(shape[i]);
  return s + "]";
}

}  // namespace sardonyx::eval
