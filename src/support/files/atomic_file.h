// AtomicFile: an output file that appears complete under its name, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sardonyx/tensor.h"
#include "support/files/mapped_file.h"

namespace sardonyx {

// Writes a file in the target's folder and gives it the target's name on commit(). Until then, and if
// destroyed without commit, an existing target stays unchanged. Where the system supports unnamed files, even
// a killed process leaves nothing behind. Makes a missing folder.
//
// If the target is a symbolic link, the link is replaced, not the file that it points to, because nobody
// named that file. If the target is a device, a pipe or a link of the system (/dev/stdout), bytes go there
// directly and write_at() fails.
//
// All functions throw Error (kIo) with the target's name. Not thread-safe.
class AtomicFile {
 public:
  struct Options {
    bool sync = false;    // on commit, wait until the content and the name are on disk
    bool unnamed = true;  // use an unnamed file until commit if possible; else one with a temporary name
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
  // Appends `size` bytes of another open file, with the system's copy call if there is one.
  void append(FileRange source, uint64_t size);
  void append_zeros(uint64_t count);
  // Appends zeros until size() is a multiple of `alignment`.
  void pad_to(uint64_t alignment);
  // Announces the final size, which lets the file system allocate cheaply. Space that stays unused is
  // released.
  void expect(uint64_t bytes);
  // Makes commit() give the target's name to the open file `source`, as a hard link. Call it before anything
  // is appended. Returns false, with no effect, if the system cannot link it (another file system, another
  // owner's file).
  bool link(int source);
  // Overwrites bytes that were appended before.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  // Puts the file in place; nothing can be written afterwards. If this throws, the target is unchanged.
  void commit();

 private:
  void open();
  void flush();
  void put(std::span<const std::byte> bytes);
  std::filesystem::path temporary_name() const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty while the file is unnamed
  Options options_;
  int fd_ = -1;
  bool direct_ = false;  // a device or pipe
  bool linked_ = false;
  uint64_t written_ = 0;
  uint64_t expected_ = 0;
  std::vector<std::byte> buffer_;
};

// The file that an AtomicFile at `target` would replace; nullopt if there is none, or only a link.
std::optional<FileStamp> replaced_at(const std::filesystem::path& target);

}  // namespace sardonyx
