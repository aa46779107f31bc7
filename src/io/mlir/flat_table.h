// FlatTable: a table of a FlatBuffers file, read with checks of every offset.
// Source: https://flatbuffers.dev/internals.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx::mlir {

// Fields are numbered in the order of the schema. An absent field is 0, an empty string or list, or no table.
// Offsets to other tables lead forward only, so that no table contains itself; but two may share a third.
// Errors are kInvalidModel with the position.
class FlatTable {
 public:
  static FlatTable root(std::span<const std::byte> file) { return {file, load<uint32_t>(file, 0)}; }

  template <class T>
  T number(size_t field) const {
    const auto at = find(field);
    return at ? load<T>(file_, *at) : T{};
  }
  std::string_view text(size_t field) const {
    const auto bytes = list<std::byte>(field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A list of numbers as its bytes.
  template <class T>
  std::span<const std::byte> list(size_t field) const {
    const auto at = find(field);
    if (!at) return {};
    const uint64_t begin = follow(*at);
    const uint64_t size = uint64_t{load<uint32_t>(file_, begin)} * sizeof(T);
    if (size > file_.size() - begin - 4) fail(begin, "a list ends behind the file");
    return file_.subspan(begin + 4, size);
  }
  size_t count(size_t field) const { return list<uint32_t>(field).size() / 4; }
  FlatTable table(size_t field, size_t index) const { return {file_, follow(item(field, index))}; }
  std::string_view text(size_t field, size_t index) const {
    const uint64_t begin = follow(item(field, index));
    const uint64_t size = load<uint32_t>(file_, begin);
    if (size > file_.size() - begin - 4) fail(begin, "a text ends behind the file");
    return {reinterpret_cast<const char*>(file_.data()) + begin + 4, size};
  }
  std::optional<FlatTable> table(size_t field) const {
    const auto at = find(field);
    if (!at) return std::nullopt;
    return FlatTable(file_, follow(*at));
  }

  template <class T>
  static T load(std::span<const std::byte> file, uint64_t at) {
    if (at > file.size() || file.size() - at < sizeof(T)) fail(at, "a number ends behind the file");
    T v;
    std::memcpy(&v, file.data() + at, sizeof v);
    return v;
  }

 private:
  FlatTable(std::span<const std::byte> file, uint64_t at) : file_(file), at_(at) {
    const int64_t fields = static_cast<int64_t>(at) - load<int32_t>(file, at);
    if (fields < 0 || static_cast<uint64_t>(fields) >= file.size()) fail(at, "a table has its fields outside of the file");
    fields_ = static_cast<uint64_t>(fields);
    size_ = load<uint16_t>(file, fields_);
  }

  // The place of a field's value.
  std::optional<uint64_t> find(size_t field) const {
    const size_t slot = 4 + 2 * field;
    if (slot + 2 > size_) return std::nullopt;
    const auto offset = load<uint16_t>(file_, fields_ + slot);
    return offset == 0 ? std::nullopt : std::optional(at_ + offset);
  }
  uint64_t item(size_t field, size_t index) const {
    return static_cast<uint64_t>(list<uint32_t>(field).subspan(4 * index, 4).data() - file_.data());
  }
  // Where the offset at `at` leads.
  uint64_t follow(uint64_t at) const {
    const auto offset = load<uint32_t>(file_, at);
    if (offset == 0 || offset > file_.size() - at) fail(at, "an offset leads out of the file");
    return at + offset;
  }
  [[noreturn]] static void fail(uint64_t at, std::string_view what) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("the exported function is damaged: {}", what),
                {fmt::format("at byte {}", at)});
  }

  std::span<const std::byte> file_;
  uint64_t at_;
  uint64_t fields_ = 0;
  size_t size_ = 0;
};

}  // namespace sardonyx::mlir
