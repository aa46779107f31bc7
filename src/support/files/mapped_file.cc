#include "support/files/mapped_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "support/system/os_error.h"
#include "support/system/system.h"

namespace sardonyx {
namespace {

FileStamp stamp_of(const sys::FileFacts& facts) {
  return {.device = facts.device, .inode = facts.inode, .size = facts.size, .modified_ns = facts.modified_ns};
}

// Reads up to `size` bytes from the descriptor's position; fewer only at the end of the file.
size_t read_up_to(int fd, std::byte* to, size_t size, const std::filesystem::path& path) {
  size_t done = 0;
  while (done < size) {
    const int64_t got = sys::read(fd, {to + done, size - done});
    if (got < 0) throw os_error("read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// For descriptors that do not know their size.
std::vector<std::byte> read_to_end(int fd, const std::filesystem::path& path) {
  std::vector<std::byte> all;
  for (size_t got = 1; got != 0;) {
    size_t before = all.size();
    all.resize(std::max<size_t>(before * 2, 64 * 1024));
    got = read_up_to(fd, all.data() + before, all.size() - before, path);
    all.resize(before + got);
  }
  return all;
}

}  // namespace

std::optional<FileStamp> FileStamp::of(const std::filesystem::path& path) {
  sys::FileFacts facts;
  if (!sys::look(path, facts)) return std::nullopt;
  return stamp_of(facts);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, Access access) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = sys::open_to_read(path);
  if (file->fd_ < 0) throw os_error("open", path, errno);
  sys::FileFacts facts;
  if (!sys::look(file->fd_, facts)) throw os_error("look at", path, errno);
  if (facts.kind == sys::FileFacts::Kind::kFolder) throw os_error("read", path, EISDIR);
  file->stamp_ = stamp_of(facts);
  file->regular_ = facts.kind == sys::FileFacts::Kind::kRegular;

  if (!file->regular_) {
    std::vector<std::byte> all = read_to_end(file->fd_, path);
    file->memory_ = std::make_unique_for_overwrite<std::byte[]>(all.size());
    std::copy(all.begin(), all.end(), file->memory_.get());
    file->bytes_ = {file->memory_.get(), all.size()};
    return file;
  }
  const auto size = static_cast<size_t>(facts.size);
  if (access == Access::kMap && size > 0) {
    if (const std::byte* at = sys::map(file->fd_, size); at != nullptr) {
      file->mapped_ = true;
      file->bytes_ = {at, size};
      return file;
    }
    // Some file systems cannot map, so read instead. If the address space is exhausted, reading would not
    // help.
    if (errno != ENODEV && errno != EACCES && errno != ENOSYS) throw os_error("map", path, errno);
  }
  file->memory_ = std::make_unique_for_overwrite<std::byte[]>(size);
  size_t got = read_up_to(file->fd_, file->memory_.get(), size, path);
  if (got != size) {
    throw Error(ErrorCode::kIo,
                fmt::format("'{}' became shorter while it was read: {} of {} bytes are left", path.string(), got, size));
  }
  file->bytes_ = {file->memory_.get(), size};
  return file;
}

MappedFile::~MappedFile() {
  if (mapped_) sys::unmap(bytes_);
  if (fd_ >= 0) sys::close(fd_);
}

std::optional<FileRange> MappedFile::range_of(std::span<const std::byte> part) const {
  SX_CHECK(part.empty() || (part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size()),
           "the bytes are not of this file");
  if (!regular_) return std::nullopt;
  return FileRange{.fd = fd_, .offset = part.empty() ? 0 : static_cast<uint64_t>(part.data() - bytes_.data())};
}

void MappedFile::check_unchanged() const {
  if (!regular_) return;
  sys::FileFacts facts;
  if (!sys::look(fd_, facts)) throw os_error("look at", path_, errno);
  const FileStamp now = stamp_of(facts);
  if (now == stamp_) return;
  std::string what = now.size != stamp_.size ? fmt::format("its size was {} bytes and is {}", stamp_.size, now.size)
                                             : std::string("its time stamp changed");
  throw Error(ErrorCode::kIo, fmt::format("'{}' changed while it was read: {}", path_.string(), what),
              {"help: run again when no other process writes to it"});
}

bool MappedFile::fetch(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return !mapped_;
  return sys::fetch(part);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (mapped_ && !part.empty()) sys::forget(part);
}

}  // namespace sardonyx
