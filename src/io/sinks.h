// Targets of a wire::Writer: a file that appears complete or not at all, or a string.
#pragma once

#include <span>
#include <string>

#include "io/wire_writer.h"
#include "support/files/atomic_file.h"

namespace sardonyx::wire {

// The kernel copies bytes of other files.
class FileSink : public Sink {
 public:
  explicit FileSink(AtomicFile& file) : file_(file) {}
  void append(std::span<const std::byte> bytes) override { file_.append(bytes); }
  void append(FileRange source, std::span<const std::byte> bytes) override { file_.append(source, bytes.size()); }

 private:
  AtomicFile& file_;
};

class StringSink : public Sink {
 public:
  explicit StringSink(std::string& out) : out_(out) {}
  void append(std::span<const std::byte> bytes) override {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void append(FileRange, std::span<const std::byte> bytes) override { append(bytes); }

 private:
  std::string& out_;
};

}  // namespace sardonyx::wire
