// Element types of ONNX, JAX and MIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sardonyx {

// Values up to 47 are the numbers of onnx.TensorProto.DataType; those from 64 on never occur in a file.
enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kC64 = 14,
  kC128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
  kU1 = 48,  // MIL only, as the next two
  kU3 = 49,
  kU6 = 50,
  kKey = 64,     // JAX PRNG key (threefry2x32: two u32 words); never written to a file
  kFloat0 = 65,  // JAX float0: the tangent type of integers; never written to a file
  kKey4 = 66     // JAX PRNG key of four u32 words (rbg, unsafe_rbg, threefry4x32); never written to a file
};

// Bits per element: 32 for f32, 4 for i4, 128 for c128; 0 for strings, keys and undefined.
int bit_width(DType t);

// Bytes of `count` elements stored densely; sub-byte types are packed, low bits first (as ONNX and Core ML
// do). Throws kLimit if the product does not fit 63 bits.
size_t byte_size(DType t, uint64_t count);

bool is_float(DType t);     // f64 f32 f16 bf16, f8 kinds, f4
bool is_signed(DType t);    // signed integers (not floats)
bool is_unsigned(DType t);  // unsigned integers, bool excluded
bool is_complex(DType t);
bool is_key(DType t);  // JAX PRNG keys, of either width
inline bool is_integer(DType t) { return is_signed(t) || is_unsigned(t); }

// "f32", "bf16", "f8e4m3fn", "i64", "u2", "bool", "c64", "str", "key".
std::string_view to_string(DType t);
// Accepts those names and NumPy's ("float32", "bfloat16", "float8_e4m3fn", "int64", "uint4", ...).
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace sardonyx
