// Name: a pointer to bytes preceded by their length, the way protobuf stores strings.
#pragma once

#include <cstdint>
#include <string_view>

namespace sardonyx {

// Points at a base-128 varint length followed by that many bytes, in a mapped file or in a model's arena
// (Model::name()). Never owns them. A null Name is empty; equality compares content.
class Name {
 public:
  Name() = default;
  explicit Name(const uint8_t* at) : at_(at) {}

  std::string_view view() const {
    if (at_ == nullptr) return {};
    const uint8_t* p = at_;
    uint64_t size = *p & 0x7f;
    for (int shift = 7; *p++ & 0x80; shift += 7) size |= static_cast<uint64_t>(*p & 0x7f) << shift;
    return {reinterpret_cast<const char*>(p), size};
  }
  operator std::string_view() const { return view(); }
  bool empty() const { return view().empty(); }
  const uint8_t* data() const { return at_; }

  friend bool operator==(Name a, Name b) { return a.at_ == b.at_ || a.view() == b.view(); }

 private:
  const uint8_t* at_ = nullptr;
};

}  // namespace sardonyx
