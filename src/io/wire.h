// Protocol-buffer wire format, read in place.
//
// Why not protozero: a name must stay a pointer to its length prefix (Name), an unknown field must stay in
// one piece with its tag, and errors must give their position in the file.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/error.h"
#include "sardonyx/name.h"

namespace sardonyx::wire {

enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field of a message, as its tag: number and wire type. io/onnx/fields_onnx.h and io/coreml/fields_coreml.h
// define the fields under their names in the .proto files.
enum class Field : uint32_t {};
constexpr Field field(uint32_t number, Type type) { return Field{number << 3 | type}; }
constexpr uint32_t tag_of(Field f) { return static_cast<uint32_t>(f); }
constexpr uint32_t number_of(Field f) { return tag_of(f) >> 3; }
// The same field with wire type bytes, as a packed list of a repeated number.
constexpr Field packed(Field f) { return field(number_of(f), kBytes); }

// An entry of a map with string keys and string or message values.
struct MapEntry {
  static constexpr Field kKey = field(1, kBytes);
  static constexpr Field kValue = field(2, kBytes);
};

// For small messages built as strings; io/wire_writer.h streams large ones.
inline void append_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}
inline void append_number(std::string& out, Field f, uint64_t v) {
  append_varint(out, tag_of(f));
  append_varint(out, v);
}
inline void append_bytes(std::string& out, Field f, std::string_view bytes) {
  append_varint(out, tag_of(packed(f)));
  append_varint(out, bytes.size());
  out += bytes;
}

// Walks the fields of one message. Never reads outside `bytes`. Errors are Error (kInvalidModel) with a
// position relative to `origin`, the first byte of the file.
//
//   while (r.next()) switch (r.field()) { case NodeProto::kName: use(r.bytes()); break; default: unknown +=
//   r.skip(); }
class Reader {
 public:
  Reader(std::string_view bytes, const char* origin) : at_(bytes.data()), end_(bytes.data() + bytes.size()), origin_(origin) {}

  // Advances to the next field; false at the end of the message.
  bool next() {
    if (at_ == end_) return false;
    start_ = at_;
    const uint64_t t = raw_varint();
    if (t > 0xffffffff || t >> 3 == 0) fail("a field number is out of range");
    tag_ = static_cast<uint32_t>(t);
    return true;
  }
  Field field() const { return Field{tag_}; }
  uint32_t number() const { return tag_ >> 3; }
  Type type() const { return static_cast<Type>(tag_ & 7); }
  const char* start() const { return start_; }  // of the current field, including its tag
  const char* at() const { return at_; }        // after what was read
  const char* origin() const { return origin_; }

  uint64_t varint() { return raw_varint(); }
  int64_t int64() { return static_cast<int64_t>(raw_varint()); }
  int32_t int32() { return static_cast<int32_t>(raw_varint()); }  // negative numbers take ten bytes: truncate as protobuf does

  std::string_view bytes() {
    const uint64_t size = raw_varint();
    if (size > static_cast<uint64_t>(end_ - at_)) {
      fail(fmt::format("a field of {} bytes has only {} left", size, end_ - at_));
    }
    const std::string_view view(at_, size);
    at_ += size;
    return view;
  }
  // The same as a Name: a pointer to the length prefix.
  Name name() {
    const char* length = at_;
    (void)bytes();
    return Name(reinterpret_cast<const uint8_t*>(length));
  }
  template <class T>
  T fixed() {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) fail("a number is cut off");
    T v;
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    return v;
  }

  // A repeated integer field, packed or one by one: appends the numbers of this occurrence.
  void int64s(std::vector<int64_t>& out) {
    if (type() != kBytes) return out.push_back(int64());
    for (Reader list(bytes(), origin_); list.at_ != list.end_;) out.push_back(list.int64());
  }

  // Skips the current field's value; returns the whole field.
  std::string_view skip() {
    switch (type()) {
      case kVarint: (void)raw_varint(); break;
      case kFixed64: (void)fixed<uint64_t>(); break;
      case kFixed32: (void)fixed<uint32_t>(); break;
      case kBytes: (void)bytes(); break;
      default: fail(fmt::format("field {} has the unknown wire type {}", number(), tag_ & 7));
    }
    return {start_, static_cast<size_t>(at_ - start_)};
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidModel, "the file is damaged or not a model of this kind: " + what,
                {fmt::format("at byte {}", start_ - origin_)});
  }

 private:
  uint64_t raw_varint() {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);
    return long_varint();
  }
  uint64_t long_varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail("a number is cut off");
      const auto b = static_cast<uint8_t>(*at_++);
      v |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    fail("a number has more than ten bytes");
  }

  const char* at_;
  const char* end_;
  const char* origin_;
  const char* start_ = at_;
  uint32_t tag_ = 0;
};

}  // namespace sardonyx::wire
