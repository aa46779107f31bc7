// Tensor: the payload of a constant. Immutable, shared, and not copied when a file is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/dtype.h"

namespace sardonyx {

class Tensor;
using TensorPtr = std::shared_ptr<const Tensor>;

// The position of bytes in a file that stays open; writers pass it to copy_file_range.
struct FileRange {
  int fd = -1;
  uint64_t offset = 0;
};

// Elements are dense, row-major, little-endian; sub-byte types packed low bits first. Bytes may be unaligned:
// read elements through read<T>() or memcpy. The shape is static. A splat stores one element that stands for
// all.
class Tensor {
 public:
  // Takes ownership of the bytes. Their number must be byte_size(dtype, product(shape)); otherwise throws
  // kInvalidModel.
  static TensorPtr own(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);
  // Refers to bytes that `keepalive` keeps valid: a mapped file, a NumPy array.
  static TensorPtr borrow(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> keepalive, std::optional<FileRange> file = {});
  // `element` holds one element (for sub-byte types: one byte whose low bits count).
  static TensorPtr splat(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> element);
  static TensorPtr strings(std::vector<int64_t> shape, std::vector<std::string> values);
  // A tensor whose bytes `compute` returns when they are read; exactly byte_size() bytes. They are not
  // cached: each call of bytes() computes them again; with_bytes() reads them once.
  static TensorPtr defer(DType dtype, std::vector<int64_t> shape, std::function<std::vector<std::byte>()> compute);
  // The same, computed in pieces: `fill(first, out)` fills `out` with the elements from row-major index
  // `first` on. Only for element types of whole bytes. read() never holds all elements.
  using Fill = std::function<void(int64_t first, std::span<std::byte> out)>;
  static TensorPtr defer(DType dtype, std::vector<int64_t> shape, Fill fill);

  // A tensor of which only the hash() is known, from a digest in a text without its sidecar. It compares by
  // hash; reading its bytes throws kUnsupported.
  static TensorPtr promise(DType dtype, std::vector<int64_t> shape, uint64_t hash);

  template <class T>
  static TensorPtr of(DType dtype, std::vector<int64_t> shape, std::span<const T> values) {
    auto* first = reinterpret_cast<const std::byte*>(values.data());
    return own(dtype, std::move(shape), std::vector<std::byte>(first, first + values.size_bytes()));
  }
  static TensorPtr scalar(int64_t v);                                            // i64[]
  static TensorPtr vector(std::span<const int64_t> v);                           // i64[n]
  static TensorPtr full(DType dtype, std::vector<int64_t> shape, double value);  // rounded to dtype; a splat if size > 1

  DType dtype() const { return dtype_; }
  std::span<const int64_t> shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  int64_t size() const { return size_; }  // elements
  size_t byte_size() const { return sardonyx::byte_size(dtype_, static_cast<uint64_t>(size_)); }

  bool is_splat() const { return splat_; }
  bool is_promise() const { return promised_hash_.has_value(); }
  bool is_deferred() const { return compute_ != nullptr || fill_ != nullptr; }
  // Whether reading a part with read() costs only that part: true unless the tensor is deferred as a whole.
  // False for sub-byte types and strings.
  bool reads_in_pieces() const { return compute_ == nullptr && bit_width(dtype_) >= 8; }
  // Fills `out` with elements from index `first` on. Only for element types of whole bytes.
  void read(int64_t first, std::span<std::byte> out) const;
  // All bytes. A splat or deferred tensor is expanded into *scratch; others refer to their storage.
  std::span<const std::byte> bytes(std::vector<std::byte>& scratch) const;
  // The stored bytes: all of them, or one element of a splat. Not for deferred tensors.
  std::span<const std::byte> stored_bytes() const { return bytes_; }
  std::span<const std::string> string_values() const { return strings_; }
  const std::optional<FileRange>& file() const { return file_; }

  // Element i (row-major), converted from any integer, bool or float dtype. Exact for i64 and for integers
  // stored as doubles.
  int64_t as_int(int64_t i) const;
  double as_double(int64_t i) const;
  // All elements as i64 if dtype is an integer or bool and size() <= limit, else nullopt. For shapes, axes,
  // pads.
  std::optional<std::vector<int64_t>> to_ints(int64_t limit = 4096) const;

  // Same dtype, shape and bytes (a splat equals its dense form).
  bool equals(const Tensor& other) const;
  uint64_t hash() const;  // of dtype, shape and content; equal for a splat and its dense form

  TensorPtr reshaped(std::vector<int64_t> shape) const;  // same bytes; sizes must agree

 private:
  Tensor() = default;
  DType dtype_ = DType::kUndefined;
  bool splat_ = false;
  int64_t size_ = 0;
  std::vector<int64_t> shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> keepalive_;
  std::optional<FileRange> file_;
  std::vector<std::string> strings_;
  std::function<std::vector<std::byte>()> compute_;
  Fill fill_;
  std::optional<uint64_t> promised_hash_;
};

// Strides in elements of a row-major tensor of that shape; an axis of size 0 counts as size 1.
std::vector<int64_t> dense_strides(std::span<const int64_t> shape);

// Conversions between double and the small float formats, rounding to nearest even. Overflow gives infinity,
// or NaN in formats without infinity; saturating (ONNX Cast's default) is up to the caller.
double decode_element(DType dtype, const std::byte* base, int64_t index);
void encode_element(DType dtype, std::byte* base, int64_t index, double value);

using NamedTensors = std::vector<std::pair<std::string, TensorPtr>>;

}  // namespace sardonyx
