// Elements of constants, as MLIR writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx::mlir {

class Cursor;

// The element type that MLIR calls `word` ("f32", "i1", "ui8", "f8E4M3FN"); nullopt for others. "index" is
// i64.
std::optional<DType> element_type(std::string_view word);

// Where the bytes of a constant are.
struct StoredBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keepalive;
  std::optional<FileRange> file = {};
};

// The tensor whose elements MLIR stores as `stored`: row-major and little-endian, each in whole bytes, or one
// for all. Booleans may be packed, eight to a byte, and 0xFF stands for "all true". Refers to the bytes where
// it can. Throws kInvalidModel if the number of bytes does not fit.
TensorPtr stored_tensor(DType dtype, std::vector<int64_t> shape, StoredBytes stored);

// The tensor that dense<literal> writes: nested lists, one element for all, or a string of hexadecimal
// digits. `literal` is a part of the text of `in`, which places errors.
TensorPtr literal_tensor(DType dtype, std::vector<int64_t> shape, std::string_view literal, const Cursor& in);

// The bytes of "0x0A1B"; nullopt if the text is something else.
std::optional<std::vector<std::byte>> hex_bytes(std::string_view text);

// A number as an element of a float type: in decimal, or its bits in hexadecimal. Nullopt if it is neither.
std::optional<double> float_value(DType dtype, std::string_view number);

}  // namespace sardonyx::mlir
