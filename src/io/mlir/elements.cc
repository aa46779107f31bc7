#include "io/mlir/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/mlir/cursor.h"
#include "ir/text/text.h"
#include "support/system/interrupt.h"

namespace sardonyx::mlir {
namespace {

// Bytes of one element in MLIR's storage.
size_t storage_bytes(DType dtype) { return static_cast<size_t>(std::max(8, bit_width(dtype))) / 8; }

// Product of the sizes; throws kLimit if it does not fit.
uint64_t element_count(DType dtype, std::span<const int64_t> shape) {
  uint64_t n = 1;
  for (int64_t d : shape) {
    if (d != 0 && n > (uint64_t{1} << 56) / static_cast<uint64_t>(d)) throw Error(ErrorCode::kLimit, "a constant is too large");
    n *= static_cast<uint64_t>(d);
  }
  (void)byte_size(dtype, n);
  return n;
}

// Elements of fewer than eight bits, one to a byte, packed as tensors have them.
std::vector<std::byte> packed(DType dtype, std::span<const std::byte> elements) {
  const auto width = static_cast<size_t>(bit_width(dtype));
  std::vector<std::byte> out(byte_size(dtype, elements.size()));
  const auto mask = static_cast<std::byte>((1u << width) - 1);
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t bit = i * width;
    out[bit / 8] |= (elements[i] & mask) << (bit % 8);
  }
  return out;
}

bool is_subbyte(DType dtype) { return bit_width(dtype) < 8; }

// Reads the literal of dense<...>, character by character: constants are most of a module's text.
class LiteralReader {
 public:
  LiteralReader(DType dtype, std::span<const int64_t> shape, std::string_view literal, const Cursor& in)
      : elements(dtype), dtype_(dtype), shape_(shape), at_(literal.data()), end_(literal.data() + literal.size()), in_(in) {}

  // Reads the elements in order. False if there was one without brackets, for all.
  bool read() {
    std::vector<int64_t> counts;  // of the open lists
    bool listed = false;
    for (;;) {
      skip_blanks();
      if (take('[')) {
        listed = true;
        if (counts.size() == shape_.size()) fail(fmt::format("lists nest deeper than the rank, {}", shape_.size()));
        counts.push_back(0);
        skip_blanks();
        if (!(at_ != end_ && *at_ == ']')) continue;  // else an empty list
      } else {
        element();
        if (counts.empty()) break;
        if (counts.size() != shape_.size()) {
          fail(fmt::format("an element at depth {} of a tensor of rank {}", counts.size(), shape_.size()));
        }
        ++counts.back();
      }
      while (skip_blanks(), !counts.empty() && take(']')) {
        const int64_t expected = shape_[counts.size() - 1];
        if (counts.back() != expected) fail(fmt::format("a list of {} where the type has {}", counts.back(), expected));
        counts.pop_back();
        if (!counts.empty()) ++counts.back();
      }
      if (counts.empty()) break;
      if (!take(',')) fail("expected ',' or ']' in a list of elements");
    }
    skip_blanks();
    if (at_ != end_) fail("expected the end of the elements");
    return listed;
  }

  text::ElementReader elements;

 private:
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail(std::string_view message) const { in_.fail_at(static_cast<size_t>(at_ - in_.text().data()), message); }

  std::string_view number() {
    skip_blanks();
    const char* from = at_;
    while (at_ != end_ && *at_ != ',' && *at_ != ']' && *at_ != ')' && *at_ != ' ' && *at_ != '\n') ++at_;
    return {from, static_cast<size_t>(at_ - from)};
  }

  void element() {
    if ((elements.count() & 0xffff) == 0) check_interrupt();
    const char* from = at_;
    if (!is_complex(dtype_)) {
      if (elements.add(number())) return;
    } else if (take('(')) {
      const std::string_view real = number();
      skip_blanks();
      if (!take(',')) fail("expected ',' between the parts of a complex element");
      const std::string_view imaginary = number();
      skip_blanks();
      if (!take(')')) fail("expected ')' behind a complex element");
      if (elements.add_complex(real, imaginary)) return;
    }
    at_ = from;
    fail(fmt::format("expected an element of type {}", to_string(dtype_)));
  }

  DType dtype_;
  std::span<const int64_t> shape_;
  const char* at_;
  const char* end_;
  const Cursor& in_;
};

}  // namespace

std::optional<DType> element_type(std::string_view word) {
  static constexpr std::pair<std::string_view, DType> kNames[] = {
      {"f32", DType::kF32},
      {"i1", DType::kBool},
      {"i32", DType::kI32},
      {"i64", DType::kI64},
      {"f64", DType::kF64},
      {"f16", DType::kF16},
      {"bf16", DType::kBF16},
      {"i2", DType::kI2},
      {"i4", DType::kI4},
      {"i8", DType::kI8},
      {"i16", DType::kI16},
      {"si2", DType::kI2},
      {"si4", DType::kI4},
      {"si8", DType::kI8},
      {"si16", DType::kI16},
      {"si32", DType::kI32},
      {"si64", DType::kI64},
      {"ui2", DType::kU2},
      {"ui4", DType::kU4},
      {"ui8", DType::kU8},
      {"ui16", DType::kU16},
      {"ui32", DType::kU32},
      {"ui64", DType::kU64},
      {"index", DType::kI64},
      {"f4E2M1FN", DType::kF4E2M1},
      {"f8E4M3FN", DType::kF8E4M3FN},
      {"f8E4M3FNUZ", DType::kF8E4M3FNUZ},
      {"f8E5M2", DType::kF8E5M2},
      {"f8E5M2FNUZ", DType::kF8E5M2FNUZ},
      {"f8E8M0FNU", DType::kF8E8M0},
  };
  for (const auto& [name, dtype] : kNames) {
    if (name == word) return dtype;
  }
  return std::nullopt;
}

std::optional<double> float_value(DType dtype, std::string_view number) {
  text::ElementReader reader(dtype);
  if (!is_float(dtype) || !reader.add(number)) return std::nullopt;
  return reader.finish({}, false)->as_double(0);
}

std::optional<std::vector<std::byte>> hex_bytes(std::string_view text) {
  if (!text.starts_with("0x") || text.size() % 2 != 0) return std::nullopt;
  text.remove_prefix(2);
  constexpr uint8_t kNone = 0xff;
  static constexpr auto kDigits = [] {
    std::array<uint8_t, 256> table{};
    for (unsigned c = 0; c < table.size(); ++c) {
      const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      table[c] = static_cast<uint8_t>(digit ? c - '0' : lower ? c - 'a' + 10 : upper ? c - 'A' + 10 : kNone);
    }
    return table;
  }();
  std::vector<std::byte> out(text.size() / 2);
  unsigned all = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const unsigned high = kDigits[static_cast<unsigned char>(text[2 * i])];
    const unsigned low = kDigits[static_cast<unsigned char>(text[2 * i + 1])];
    all |= high | low;
    out[i] = static_cast<std::byte>((high << 4 | low) & 0xff);
  }
  if (all > 0xf) return std::nullopt;
  return out;
}

TensorPtr stored_tensor(DType dtype, std::vector<int64_t> shape, StoredBytes stored) {
  const uint64_t n = element_count(dtype, shape);
  const size_t unit = storage_bytes(dtype), size = stored.bytes.size();
  if (dtype == DType::kBool && size == 1 && (stored.bytes[0] == std::byte{0} || stored.bytes[0] == std::byte{0xff})) {
    const std::byte all = stored.bytes[0] & std::byte{1};
    return Tensor::splat(dtype, std::move(shape), {&all, 1});
  }
  if (size / unit == n && size % unit == 0) {
    const auto is_boolean = [](std::byte b) { return b <= std::byte{1}; };
    if (dtype == DType::kBool && !std::ranges::all_of(stored.bytes, is_boolean)) {
      throw Error(ErrorCode::kInvalidModel, "a boolean element of a constant is neither 0 nor 1");
    }
    if (is_subbyte(dtype)) return Tensor::own(dtype, std::move(shape), packed(dtype, stored.bytes));
    return Tensor::borrow(dtype, std::move(shape), stored.bytes, std::move(stored.keepalive), stored.file);
  }
  if (dtype == DType::kBool && size == (n + 7) / 8) {
    std::vector<std::byte> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = (stored.bytes[i / 8] >> (i % 8)) & std::byte{1};
    return Tensor::own(dtype, std::move(shape), std::move(out));
  }
  if (size == unit) return Tensor::splat(dtype, std::move(shape), stored.bytes);
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("{} bytes of elements for a constant of {} elements of type {}", size, n, to_string(dtype)));
}

TensorPtr literal_tensor(DType dtype, std::vector<int64_t> shape, std::string_view literal, const Cursor& in) {
  const auto from = static_cast<size_t>(literal.data() - in.text().data());
  const auto trimmed = [](std::string_view s) {
    while (!s.empty() && (s.front() == ' ' || s.front() == '\n')) s.remove_prefix(1);
    while (!s.empty() && (s.back() == ' ' || s.back() == '\n')) s.remove_suffix(1);
    return s;
  };
  const std::string_view body = trimmed(literal);
  const uint64_t n = element_count(dtype, shape);
  if (body.starts_with('"')) {
    auto bytes = hex_bytes(body.substr(1, body.size() < 2 ? 0 : body.size() - 2));
    if (!bytes || !body.ends_with('"')) in.fail_at(from, "expected a string of hexadecimal digits, \"0x...\"");
    const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(*bytes));
    return stored_tensor(dtype, std::move(shape), {*kept, kept});
  }
  if (body.empty()) {
    if (n != 0) in.fail_at(from, fmt::format("no elements for a constant of {}", n));
    return Tensor::own(dtype, std::move(shape), {});
  }
  const std::vector<int64_t> sizes = shape;
  LiteralReader reader(dtype, sizes, body, in);
  const bool listed = reader.read();
  return reader.elements.finish(std::move(shape), /*repeat=*/!listed && n != 1);
}

}  // namespace sardonyx::mlir
