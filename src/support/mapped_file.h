// A file that is read: mapped, or in memory where mappings are not trusted.
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

// What tells one state of a file from another: identity, size and time of the last change.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
  bool same_file(const FileStamp& other) const { return device == other.device && inode == other.inode; }

  // Nullopt when nothing is at `path`, or it may not be looked at. Follows symbolic links.
  static std::optional<FileStamp> of(const std::filesystem::path& path);
};

// Owns an open file and its bytes; both stay valid, at the same address, until it is destroyed. Keep it alive by the
// shared pointer, for instance as a Tensor's keepalive. Safe to use from many threads.
//
// If somebody else truncates a mapped file, touching the lost pages ends the process (SIGBUS). kRead has no such risk and
// takes the file's size in memory.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  enum class Access { kMap, kRead };

  // Throws Error (kIo) when the file cannot be opened or read. What cannot be mapped (a pipe) is read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, Access access = Access::kMap);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t size() const { return bytes_.size(); }
  bool is_mapped() const { return mapped_; }
  const FileStamp& stamp() const { return stamp_; }

  // Where `part`, a piece of bytes(), lies in the file. Nullopt when the descriptor cannot be read from again (a pipe).
  std::optional<FileRange> range_of(std::span<const std::byte> part) const;

  // Throws Error (kIo) when size or time stamp are no longer those at opening. Writers call this before the final rename:
  // what was read from a file that changed meanwhile is not to be trusted.
  void check_unchanged() const;

  // Has the pages of `part` at hand at once, instead of one by one as they are touched. False where the system does not do that, or the
  // file has become shorter.
  bool fetch(std::span<const std::byte> part) const;

  // Tells the system that the pages of `part` will not be needed soon. They are read again when touched again.
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
