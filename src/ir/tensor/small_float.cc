// Converts elements of every number format from and to doubles: decode_element and encode_element.
//
// Four numbers describe each small format (see kFormats), after the OCP 8-bit and microscaling specifications
// and, for the fnuz formats, "8-bit Numerical Formats for Deep Neural Networks" (Noune et al.). All
// conversions use exact integer arithmetic and round once, to nearest even, directly from the double.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sardonyx/error.h"
#include "sardonyx/tensor.h"

namespace sardonyx {
namespace {

enum class Special : uint8_t {
  kIeee,      // the top exponent encodes infinity and NaN
  kFn,        // no infinity; all ones is NaN
  kFnuz,      // no infinity, no -0, whose code is NaN
  kSaturate,  // neither; overflow gives the largest value, NaN gives -0 as in ml_dtypes
};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Special special;
  uint32_t max_code;  // of the largest finite magnitude
};

constexpr Format kF16Format = {5, 10, 15, Special::kIeee, 0x7bff};
constexpr Format kBF16Format = {8, 7, 127, Special::kIeee, 0x7f7f};
constexpr Format kE4M3FN = {4, 3, 7, Special::kFn, 0x7e};
constexpr Format kE4M3FNUZ = {4, 3, 8, Special::kFnuz, 0x7f};
constexpr Format kE5M2 = {5, 2, 15, Special::kIeee, 0x7b};
constexpr Format kE5M2FNUZ = {5, 2, 16, Special::kFnuz, 0x7f};
constexpr Format kE2M1 = {2, 1, 1, Special::kSaturate, 0x7};

double power_of_two(int e) { return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52); }

// The magnitude of a double as significand * 2^(exponent - 52), for values that are normal doubles.
struct Parts {
  uint64_t significand;
  int exponent;
};
Parts split(double magnitude) {
  const auto bits = std::bit_cast<uint64_t>(magnitude);
  return {(bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52), static_cast<int>(bits >> 52) - 1023};
}

// v / 2^shift, rounded to nearest even.
uint64_t shift_round(uint64_t v, int shift) {
  if (shift > 62) return 0;
  const uint64_t kept = v >> shift;
  const uint64_t rest = v & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
}

double decode(const Format& f, uint32_t code) {
  const uint32_t sign_bit = 1u << (f.exponent_bits + f.mantissa_bits);
  const bool negative = (code & sign_bit) != 0;
  const uint32_t magnitude = code & (sign_bit - 1);
  if (f.special == Special::kFnuz && code == sign_bit) return std::numeric_limits<double>::quiet_NaN();
  double v = 0;
  if (magnitude > f.max_code) {
    v = f.special == Special::kIeee && magnitude == f.max_code + 1 ? std::numeric_limits<double>::infinity()
                                                                   : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    v = exponent == 0 ? mantissa * power_of_two(1 - f.bias - f.mantissa_bits)
                      : (mantissa | (1u << f.mantissa_bits)) * power_of_two(exponent - f.bias - f.mantissa_bits);
  }
  return negative ? -v : v;
}

uint32_t encode(const Format& f, double value) {
  const uint32_t sign_bit = 1u << (f.exponent_bits + f.mantissa_bits);
  const uint32_t sign = std::signbit(value) ? sign_bit : 0;
  // A quiet NaN; formats with only one NaN, or one per sign, have no other.
  auto nan = [&]() -> uint32_t {
    switch (f.special) {
      case Special::kIeee: return sign | (f.max_code + 1) | (1u << (f.mantissa_bits - 1));
      case Special::kFn: return sign | (f.max_code + 1);
      default: return sign_bit;
    }
  };
  if (std::isnan(value)) return nan();
  const double magnitude = std::fabs(value);
  uint64_t code = 0;
  if (std::isinf(value)) {
    code = uint64_t{f.max_code} + 1;
  } else if (magnitude >= std::numeric_limits<double>::min()) {
    const auto [significand, e] = split(magnitude);
    const int exponent = std::max(e, 1 - f.bias);  // smaller ones are subnormal
    const uint64_t m = shift_round(significand, 52 - f.mantissa_bits + (exponent - e));
    // Rounding up to the next power of two carries into the exponent correctly.
    code = (static_cast<uint64_t>(exponent + f.bias - 1) << f.mantissa_bits) + m;
  }
  if (code > f.max_code) {
    if (f.special == Special::kIeee) return sign | (f.max_code + 1);
    if (f.special == Special::kSaturate) return sign | f.max_code;
    return nan();
  }
  if (code == 0 && f.special == Special::kFnuz) return 0;
  return sign | static_cast<uint32_t>(code);
}

// f8e8m0: powers of two from 2^-127 to 2^127, and NaN. It has neither zero nor sign.
double decode_e8m0(uint8_t code) { return code == 0xff ? std::numeric_limits<double>::quiet_NaN() : power_of_two(code - 127); }

uint8_t encode_e8m0(double value) {
  if (!(value > 0) || std::isinf(value)) return 0xff;
  if (value < std::numeric_limits<double>::min()) return 0;
  const auto [significand, e] = split(value);
  if (e < -127) return 0;
  const int64_t code = e + 126 + static_cast<int64_t>(shift_round(significand, 52));
  return code > 0xfe ? 0xff : static_cast<uint8_t>(code);
}

const Format* small_format(DType t) {
  switch (t) {
    case DType::kF8E4M3FN: return &kE4M3FN;
    case DType::kF8E4M3FNUZ: return &kE4M3FNUZ;
    case DType::kF8E5M2: return &kE5M2;
    case DType::kF8E5M2FNUZ: return &kE5M2FNUZ;
    case DType::kF4E2M1: return &kE2M1;
    default: return nullptr;
  }
}

template <class T>
T load(const std::byte* base, int64_t index) {
  T v;
  std::memcpy(&v, base + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return v;
}

template <class T>
void store(std::byte* base, int64_t index, T v) {
  std::memcpy(base + static_cast<size_t>(index) * sizeof(T), &v, sizeof(T));
}

// Towards zero, NaN to 0, overflow to the nearest end of the range: defined where C++ leaves it undefined.
template <class T>
T to_integer(double v, int width = 8 * sizeof(T)) {
  if (std::isnan(v)) return 0;
  const double high = power_of_two(std::is_signed_v<T> ? width - 1 : width);
  const double low = std::is_signed_v<T> ? -high : 0;
  v = std::trunc(v);
  const uint64_t top = ~uint64_t{0} >> (64 - width + (std::is_signed_v<T> ? 1 : 0));
  if (v >= high) return static_cast<T>(top);
  if (v <= low) return std::is_signed_v<T> ? static_cast<T>(-static_cast<int64_t>(top) - 1) : T{0};
  return static_cast<T>(v);
}

uint32_t load_bits(const std::byte* base, int64_t index, int width) {
  const auto bit = static_cast<uint64_t>(index) * static_cast<uint64_t>(width);
  uint32_t code = static_cast<uint32_t>(base[bit / 8]) >> (bit % 8);
  if (bit % 8 + static_cast<uint64_t>(width) > 8) code |= static_cast<uint32_t>(base[bit / 8 + 1]) << (8 - bit % 8);
  return code & ((1u << width) - 1);
}

void store_bits(std::byte* base, int64_t index, int width, uint32_t code) {
  const auto bit = static_cast<uint64_t>(index) * static_cast<uint64_t>(width);
  const uint32_t mask = ((1u << width) - 1) << (bit % 8);
  auto& at = base[bit / 8];
  at = static_cast<std::byte>((static_cast<uint32_t>(at) & ~mask) | ((code << (bit % 8)) & mask));
  if (mask > 0xff) {  // 3- and 6-bit elements may span two bytes
    auto& rest = base[bit / 8 + 1];
    rest = static_cast<std::byte>((static_cast<uint32_t>(rest) & ~(mask >> 8)) | (((code << (bit % 8)) & mask) >> 8));
  }
}

[[noreturn]] void refuse(DType t) {
  throw Error(ErrorCode::kInvalidArgument, "elements of " + std::string(to_string(t)) + " are not real numbers");
}

}  // namespace

double decode_element(DType dtype, const std::byte* base, int64_t index) {
  switch (dtype) {
    case DType::kF32: return load<float>(base, index);
    case DType::kF64: return load<double>(base, index);
    case DType::kF16: return decode(kF16Format, load<uint16_t>(base, index));
    case DType::kBF16: return std::bit_cast<float>(uint32_t{load<uint16_t>(base, index)} << 16);
    case DType::kBool: return load<uint8_t>(base, index) != 0 ? 1 : 0;
    case DType::kI64: return static_cast<double>(load<int64_t>(base, index));
    case DType::kI32: return load<int32_t>(base, index);
    case DType::kI16: return load<int16_t>(base, index);
    case DType::kI8: return load<int8_t>(base, index);
    case DType::kU64: return static_cast<double>(load<uint64_t>(base, index));
    case DType::kU32: return load<uint32_t>(base, index);
    case DType::kU16: return load<uint16_t>(base, index);
    case DType::kU8: return load<uint8_t>(base, index);
    case DType::kU4: return load_bits(base, index, 4);
    case DType::kU2: return load_bits(base, index, 2);
    case DType::kU1: return load_bits(base, index, 1);
    case DType::kU3: return load_bits(base, index, 3);
    case DType::kU6: return load_bits(base, index, 6);
    case DType::kI4: return static_cast<int>(load_bits(base, index, 4) ^ 8u) - 8;
    case DType::kI2: return static_cast<int>(load_bits(base, index, 2) ^ 2u) - 2;
    case DType::kF4E2M1: return decode(kE2M1, load_bits(base, index, 4));
    case DType::kF8E8M0: return decode_e8m0(load<uint8_t>(base, index));
    default: break;
  }
  if (const Format* f = small_format(dtype)) return decode(*f, load<uint8_t>(base, index));
  refuse(dtype);
}

void encode_element(DType dtype, std::byte* base, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32: return store(base, index, static_cast<float>(value));
    case DType::kF64: return store(base, index, value);
    case DType::kF16: return store(base, index, static_cast<uint16_t>(encode(kF16Format, value)));
    case DType::kBF16: return store(base, index, static_cast<uint16_t>(encode(kBF16Format, value)));
    case DType::kBool: return store(base, index, static_cast<uint8_t>(value != 0));
    case DType::kI64: return store(base, index, to_integer<int64_t>(value));
    case DType::kI32: return store(base, index, to_integer<int32_t>(value));
    case DType::kI16: return store(base, index, to_integer<int16_t>(value));
    case DType::kI8: return store(base, index, to_integer<int8_t>(value));
    case DType::kU64: return store(base, index, to_integer<uint64_t>(value));
    case DType::kU32: return store(base, index, to_integer<uint32_t>(value));
    case DType::kU16: return store(base, index, to_integer<uint16_t>(value));
    case DType::kU8: return store(base, index, to_integer<uint8_t>(value));
    case DType::kU4: return store_bits(base, index, 4, to_integer<uint8_t>(value, 4));
    case DType::kU2: return store_bits(base, index, 2, to_integer<uint8_t>(value, 2));
    case DType::kU1: return store_bits(base, index, 1, to_integer<uint8_t>(value, 1));
    case DType::kU3: return store_bits(base, index, 3, to_integer<uint8_t>(value, 3));
    case DType::kU6: return store_bits(base, index, 6, to_integer<uint8_t>(value, 6));
    case DType::kI4: return store_bits(base, index, 4, static_cast<uint32_t>(to_integer<int8_t>(value, 4)));
    case DType::kI2: return store_bits(base, index, 2, static_cast<uint32_t>(to_integer<int8_t>(value, 2)));
    case DType::kF4E2M1: return store_bits(base, index, 4, encode(kE2M1, value));
    case DType::kF8E8M0: return store(base, index, encode_e8m0(value));
    default: break;
  }
  const Format* f = small_format(dtype);
  if (f == nullptr) refuse(dtype);
  store(base, index, static_cast<uint8_t>(encode(*f, value)));
}

}  // namespace sardonyx
