// A file that is written: complete under its name, or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sardonyx/tensor.h"
#include "support/mapped_file.h"

namespace sardonyx {

// Collects a file's content in the folder of its target and gives it the target's name on commit(). Until then, and when
// destroyed without commit, a file that was at the target stays as it was. Where the system can hold files without a name,
// even a killed process leaves nothing behind.
//
// If the target is a symbolic link, the link is replaced, and what it points to stays: nobody named that file. If it is a device or a pipe,
// or a link of the system (/dev/stdout), bytes go there at once and write_at() fails.
//
// All functions throw Error (kIo) with the target's name. Not for use by several threads at a time.
class AtomicFile {
 public:
  struct Options {
    bool sync = false;    // on commit, wait until bytes and name are on the disk
    bool unnamed = true;  // until commit, a file without a name where the system can; else one with a temporary name
  };

  explicit AtomicFile(std::filesystem::path target);
  AtomicFile(std::filesystem::path target, Options options);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& target() const { return target_; }
  uint64_t size() const { return written_ + buffer_.size(); }  // bytes so far

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  // Appends `size` bytes of another open file, by the system's own copy where it has one.
  void append(FileRange source, uint64_t size);
  void append_zeros(uint64_t count);
  // Appends zeros until size() is a multiple of `alignment`.
  void pad_to(uint64_t alignment);
  // How large the file will be: what the system knows in advance costs it less. Nothing is kept back or filled up.
  void expect(uint64_t bytes);
  // Before anything was appended: commit() gives the target's name to the open file `source` itself, a hard link. False where the system
  // does not link it (another file system, a file of somebody else); then everything is as before.
  bool link(int source);
  // Overwrites bytes that were appended before; they must exist.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  // Puts the file in place. Nothing can be written afterwards. If it throws, the target is as it was.
  void commit();

 private:
  void open();
  void flush();
  void put(std::span<const std::byte> bytes);
  std::filesystem::path temporary_name() const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty while the file has no name
  Options options_;
  int fd_ = -1;
  bool direct_ = false;  // a device or pipe
  bool linked_ = false;
  uint64_t written_ = 0;
  uint64_t expected_ = 0;
  std::vector<std::byte> buffer_;
};

// The file that an AtomicFile at `target` would replace; nullopt where there is none, or but a link.
std::optional<FileStamp> replaced_at(const std::filesystem::path& target);

}  // namespace sardonyx
