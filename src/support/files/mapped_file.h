// MappedFile: an input file, mapped, or read into memory if mappings are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sardonyx/tensor.h"

namespace sardonyx {

// Distinguishes two states of a file: identity, size and time of the last change.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
  bool same_file(const FileStamp& other) const { return device == other.device && inode == other.inode; }

  // Nullopt if nothing is at `path` or it cannot be examined. Follows symbolic links.
  static std::optional<FileStamp> of(const std::filesystem::path& path);
};

// Owns an open file and its bytes; both stay valid, at the same address, until it is destroyed. Keep it alive
// by the shared pointer, for instance as a Tensor's keepalive. Thread-safe.
//
// If someone else truncates a mapped file, touching the lost pages ends the process (SIGBUS). kRead has no
// such risk but uses as much memory as the file is large.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  enum class Access { kMap, kRead };

  // Throws Error (kIo) if the file cannot be opened or read. Files that cannot be mapped (pipes) are read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, Access access = Access::kMap);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t size() const { return bytes_.size(); }
  bool is_mapped() const { return mapped_; }
  const FileStamp& stamp() const { return stamp_; }

  // The position in the file of `part`, a part of bytes(). Nullopt if the descriptor cannot be read again (a
  // pipe).
  std::optional<FileRange> range_of(std::span<const std::byte> part) const;

  // Throws Error (kIo) if the size or time stamp changed since the file was opened. Writers call this before
  // the final rename, because data read from a file that changed meanwhile cannot be trusted.
  void check_unchanged() const;

  // Loads the pages of `part` at once instead of one by one on access. False if the system does not support
  // that, or if the file became shorter.
  bool fetch(std::span<const std::byte> part) const;

  // Tells the system that the pages of `part` will not be needed soon. Touching them reads them again.
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;

  std::filesystem::path path_;
  int fd_ = -1;
  bool mapped_ = false;
  bool regular_ = false;
  FileStamp stamp_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace sardonyx
