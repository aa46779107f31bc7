// ByteReader: the primitive encodings of MLIR bytecode, read in place.
// Source: https://mlir.llvm.org/docs/BytecodeFormat.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx::mlir {

// Never reads outside of `bytes`. Errors are kInvalidModel with a position relative to `origin`, the first
// byte of the file.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const std::byte* origin)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), origin_(origin) {}

  bool at_end() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  size_t position() const { return static_cast<size_t>(at_ - origin_); }

  uint8_t byte() {
    if (at_ == end_) fail("the data ends early");
    return static_cast<uint8_t>(*at_++);
  }

  // The number of zero bits at the low end of the first byte is the number of bytes that follow.
  uint64_t varint() {
    const uint8_t first = byte();
    if ((first & 1) != 0) return first >> 1;
    const int more = first == 0 ? 8 : std::countr_zero(first);
    uint64_t rest = 0;
    const auto tail = bytes(static_cast<size_t>(more));
    std::memcpy(&rest, tail.data(), tail.size());
    if (first == 0) return rest;
    return (rest << 8 | first) >> (more + 1);
  }
  int64_t signed_varint() {
    const uint64_t v = varint();
    return static_cast<int64_t>((v >> 1) ^ (0 - (v & 1)));
  }
  // A number whose lowest bit is a flag.
  struct Flagged {
    uint64_t value;
    bool flag;
  };
  Flagged flagged() {
    const uint64_t v = varint();
    return {v >> 1, (v & 1) != 0};
  }
  // The length of a list whose items take at least one byte each.
  size_t count() {
    const uint64_t n = varint();
    if (n > left()) fail(fmt::format("a list of {} items has {} bytes left", n, left()));
    return static_cast<size_t>(n);
  }

  std::span<const std::byte> bytes(uint64_t size) {
    if (size > left()) fail(fmt::format("a piece of {} bytes has {} left", size, left()));
    const std::span<const std::byte> piece(at_, static_cast<size_t>(size));
    at_ += size;
    return piece;
  }
  std::span<const std::byte> blob() { return bytes(varint()); }
  // Up to and without the next zero byte.
  std::string_view zero_terminated() {
    const auto* end = static_cast<const std::byte*>(std::memchr(at_, 0, left()));
    if (end == nullptr) fail("a text has no end");
    const std::string_view text(reinterpret_cast<const char*>(at_), static_cast<size_t>(end - at_));
    at_ = end + 1;
    return text;
  }
  ByteReader part(std::span<const std::byte> piece) const { return {piece, origin_}; }

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::kInvalidModel, fmt::format("the bytecode is damaged: {}", what),
                {fmt::format("at byte {}", position())});
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
  const std::byte* origin_;
};

}  // namespace sardonyx::mlir
