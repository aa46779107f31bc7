#include "sardonyx/dtype.h"

#include <array>
#include <utility>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

__extension__ typedef unsigned __int128 uint128;

struct Row {
  DType dtype;
  int bits;
  std::string_view name;
  std::string_view numpy;
};

constexpr std::array kRows = {
    Row{DType::kUndefined, 0, "undefined", ""},
    Row{DType::kF32, 32, "f32", "float32"},
    Row{DType::kU8, 8, "u8", "uint8"},
    Row{DType::kI8, 8, "i8", "int8"},
    Row{DType::kU16, 16, "u16", "uint16"},
    Row{DType::kI16, 16, "i16", "int16"},
    Row{DType::kI32, 32, "i32", "int32"},
    Row{DType::kI64, 64, "i64", "int64"},
    Row{DType::kString, 0, "str", "string"},
    Row{DType::kBool, 8, "bool", "bool_"},
    Row{DType::kF16, 16, "f16", "float16"},
    Row{DType::kF64, 64, "f64", "float64"},
    Row{DType::kU32, 32, "u32", "uint32"},
    Row{DType::kU64, 64, "u64", "uint64"},
    Row{DType::kC64, 64, "c64", "complex64"},
    Row{DType::kC128, 128, "c128", "complex128"},
    Row{DType::kBF16, 16, "bf16", "bfloat16"},
    Row{DType::kF8E4M3FN, 8, "f8e4m3fn", "float8_e4m3fn"},
    Row{DType::kF8E4M3FNUZ, 8, "f8e4m3fnuz", "float8_e4m3fnuz"},
    Row{DType::kF8E5M2, 8, "f8e5m2", "float8_e5m2"},
    Row{DType::kF8E5M2FNUZ, 8, "f8e5m2fnuz", "float8_e5m2fnuz"},
    Row{DType::kU4, 4, "u4", "uint4"},
    Row{DType::kI4, 4, "i4", "int4"},
    Row{DType::kF4E2M1, 4, "f4e2m1", "float4_e2m1fn"},
    Row{DType::kF8E8M0, 8, "f8e8m0", "float8_e8m0fnu"},
    Row{DType::kU2, 2, "u2", "uint2"},
    Row{DType::kI2, 2, "i2", "int2"},
    Row{DType::kU1, 1, "u1", "uint1"},
    Row{DType::kU3, 3, "u3", "uint3"},
    Row{DType::kU6, 6, "u6", "uint6"},
    Row{DType::kKey, 0, "key", ""},
    Row{DType::kFloat0, 0, "float0", ""},
    Row{DType::kKey4, 0, "key4", ""},
};

// Index into kRows: ONNX types are dense, the others follow.
const Row* row(DType t) {
  auto n = static_cast<size_t>(t);
  constexpr size_t kMil = kRows.size() - 6;
  if (n >= static_cast<size_t>(DType::kU1) && n <= static_cast<size_t>(DType::kU6)) return &kRows[kMil + n - 48];
  if (n >= kMil && n < 64) return nullptr;
  if (t >= DType::kKey) n += kRows.size() - 3 - static_cast<size_t>(DType::kKey);
  return n < kRows.size() ? &kRows[n] : nullptr;
}

}  // namespace

int bit_width(DType t) {
  const Row* r = row(t);
  return r != nullptr ? r->bits : 0;
}

size_t byte_size(DType t, uint64_t count) {
  const auto width = static_cast<uint64_t>(bit_width(t));
  const uint128 bits = static_cast<uint128>(count) * width;
  const uint128 bytes = (bits + 7) / 8;
  if (bytes >> 63 != 0) {
    throw Error(ErrorCode::kLimit,
                std::to_string(count) + " elements of " + std::string(to_string(t)) + " do not fit the address space");
  }
  return static_cast<size_t>(bytes);
}

bool is_float(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
    case DType::kF4E2M1: return true;
    default: return false;
  }
}

bool is_signed(DType t) {
  return t == DType::kI64 || t == DType::kI32 || t == DType::kI16 || t == DType::kI8 || t == DType::kI4 || t == DType::kI2;
}

bool is_unsigned(DType t) {
  return t == DType::kU64 || t == DType::kU32 || t == DType::kU16 || t == DType::kU8 || t == DType::kU4 || t == DType::kU2 ||
         t == DType::kU1 || t == DType::kU3 || t == DType::kU6;
}

bool is_complex(DType t) { return t == DType::kC64 || t == DType::kC128; }

bool is_key(DType t) { return t == DType::kKey || t == DType::kKey4; }

std::string_view to_string(DType t) {
  const Row* r = row(t);
  return r != nullptr ? r->name : "invalid";
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const Row& r : kRows) {
    if (r.dtype != DType::kUndefined && (text == r.name || text == r.numpy)) return r.dtype;
  }
  // Spellings of other NumPy versions and of ONNX's own type strings.
  constexpr std::pair<std::string_view, DType> kMore[] = {
      {"float", DType::kF32},
      {"double", DType::kF64},
      {"float4_e2m1", DType::kF4E2M1},
      {"float4e2m1", DType::kF4E2M1},
      {"f4e2m1fn", DType::kF4E2M1},
      {"float8_e8m0", DType::kF8E8M0},
      {"float8e8m0", DType::kF8E8M0},
      {"float8e4m3fn", DType::kF8E4M3FN},
      {"float8e4m3fnuz", DType::kF8E4M3FNUZ},
      {"float8e5m2", DType::kF8E5M2},
      {"float8e5m2fnuz", DType::kF8E5M2FNUZ},
  };
  for (const auto& [name, t] : kMore) {
    if (text == name) return t;
  }
  return std::nullopt;
}

}  // namespace sardonyx
