// Writes the protocol-buffer wire format in two passes of the same code: one measures, one writes.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "io/wire.h"
#include "sardonyx/tensor.h"

namespace sardonyx::wire {

// The target of a Writer.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  // Bytes that are both in memory and in an open file.
  virtual void append(FileRange source, std::span<const std::byte> bytes) = 0;
};

inline size_t varint_size(uint64_t v) { return v == 0 ? 1 : (63 - static_cast<size_t>(__builtin_clzll(v))) / 7 + 1; }

// A message's length precedes its content. The measuring pass records the length of each message in order,
// and the writing pass, which must make the same calls, looks them up. So a model is streamed without being
// in memory.
class Writer {
 public:
  Writer() : buffer_(new char[kBuffer]) {}

  bool measuring() const { return sink_ == nullptr; }
  uint64_t size() const { return size_; }

  // Ends measuring and begins writing.
  void start(Sink& sink) {
    sink_ = &sink;
    measured_ = size_;
    size_ = 0;
    next_ = 0;
  }
  void finish() {
    flush();
    SX_CHECK(size_ == measured_ && next_ == lengths_.size(), "the two passes of the writer differ");
  }
  // Discards the measurements.
  void reset() {
    size_ = 0;
    lengths_.clear();
  }

  void varint(Field f, uint64_t v) {
    raw_varint(tag_of(f));
    raw_varint(v);
  }
  void int64(Field f, int64_t v) { varint(f, static_cast<uint64_t>(v)); }
  void float32(Field f, float v) {
    raw_varint(tag_of(f));
    raw({reinterpret_cast<const char*>(&v), sizeof v});
  }
  void bytes(Field f, std::string_view v) {
    head(f, v.size());
    raw(v);
  }
  // Like bytes(), for field numbers below 16: a Name already has its length in front.
  void name(Field f, Name n) {
    const auto* at = reinterpret_cast<const char*>(n.data());
    if (at == nullptr || *n.data() >= 0x80) return bytes(f, n.view());
    const size_t length = 1 + static_cast<size_t>(*n.data());
    size_ += 1 + length;
    if (measuring()) return;
    if (used_ + 1 + length > kBuffer) flush();
    buffer_[used_] = static_cast<char>(tag_of(f));
    std::memcpy(buffer_.get() + used_ + 1, at, length);
    used_ += 1 + length;
  }
  // Like bytes(), unless empty.
  void text(Field f, std::string_view v) {
    if (!v.empty()) bytes(f, v);
  }
  // Writes the tag and length of a field; its content follows by raw().
  void head(Field f, uint64_t length) {
    raw_varint(tag_of(packed(f)));
    raw_varint(length);
  }
  // Appends bytes already in wire format.
  void raw(std::string_view v) {
    size_ += v.size();
    if (measuring() || v.empty()) return;
    if (used_ + v.size() > kBuffer) {
      flush();
      if (v.size() >= kBuffer) {
        sink_->append(std::as_bytes(std::span(v)));
        return;
      }
    }
    std::memcpy(buffer_.get() + used_, v.data(), v.size());
    used_ += v.size();
  }
  void raw(FileRange source, std::span<const std::byte> bytes) {
    size_ += bytes.size();
    if (measuring()) return;
    flush();
    sink_->append(source, bytes);
  }
  // While measuring: accounts for content that is not known yet.
  void skip(uint64_t length) { size_ += length; }

 private:
  friend class Message;
  static constexpr size_t kBuffer = size_t{1} << 16;

  void begin(Field f) {
    if (measuring()) {
      open_.push_back({f, lengths_.size()});
      lengths_.push_back(size_);
    } else {
      SX_CHECK(next_ < lengths_.size());
      head(f, lengths_[next_++]);
    }
  }
  void end() {
    if (!measuring()) return;
    const auto [field, index] = open_.back();
    uint64_t& length = lengths_[index];
    length = size_ - length;
    size_ += varint_size(tag_of(field)) + varint_size(length);
    open_.pop_back();
  }
  void raw_varint(uint64_t v) {
    if (measuring()) {
      size_ += varint_size(v);
      return;
    }
    if (used_ + 10 > kBuffer) flush();
    const size_t before = used_;
    for (; v >= 0x80; v >>= 7) buffer_[used_++] = static_cast<char>(v | 0x80);
    buffer_[used_++] = static_cast<char>(v);
    size_ += used_ - before;
  }
  void flush() {
    if (used_ != 0) sink_->append(std::as_bytes(std::span(buffer_.get(), used_)));
    used_ = 0;
  }

  Sink* sink_ = nullptr;
  uint64_t size_ = 0;
  uint64_t measured_ = 0;
  struct Open {
    Field field;
    size_t index;  // in lengths_
  };
  std::vector<uint64_t> lengths_;  // of messages, in the order in which they start
  size_t next_ = 0;
  std::vector<Open> open_;
  std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;
};

// Writes a nested message: its content is what is written while this object lives.
class Message {
 public:
  Message(Writer& w, Field f) : w_(w) { w.begin(f); }
  ~Message() { w_.end(); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

 private:
  Writer& w_;
};

}  // namespace sardonyx::wire
