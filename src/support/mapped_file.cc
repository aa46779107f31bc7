#include "support/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "support/os_error.h"

namespace sardonyx {
namespace {

constexpr size_t kPiece = size_t{1} << 30;  // Linux reads at most 2^31 - 4096 bytes at a time

FileStamp stamp_of(const struct stat& s) {
  return {.device = s.st_dev,
          .inode = s.st_ino,
          .size = static_cast<uint64_t>(s.st_size),
          .modified_ns = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec};
}

// Reads up to `size` bytes from the descriptor's position; fewer only at the end of the file.
size_t read_up_to(int fd, std::byte* to, size_t size, const std::filesystem::path& path) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = ::read(fd, to + done, std::min(kPiece, size - done));
    if (got < 0 && errno == EINTR) continue;
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
  struct stat s;
  if (::stat(path.c_str(), &s) != 0) return std::nullopt;
  return stamp_of(s);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, Access access) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd_ < 0) throw os_error("open", path, errno);
  struct stat s;
  if (::fstat(file->fd_, &s) != 0) throw os_error("look at", path, errno);
  if (S_ISDIR(s.st_mode)) throw os_error("read", path, EISDIR);
  file->stamp_ = stamp_of(s);
  file->regular_ = S_ISREG(s.st_mode);

  if (!file->regular_) {
    std::vector<std::byte> all = read_to_end(file->fd_, path);
    file->memory_ = std::make_unique_for_overwrite<std::byte[]>(all.size());
    std::copy(all.begin(), all.end(), file->memory_.get());
    file->bytes_ = {file->memory_.get(), all.size()};
    return file;
  }
  const auto size = static_cast<size_t>(s.st_size);
  if (access == Access::kMap && size > 0) {
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd_, 0);
    if (at != MAP_FAILED) {
      file->mapped_ = true;
      file->bytes_ = {static_cast<const std::byte*>(at), size};
      return file;
    }
    // Some file systems cannot map, so read instead. If the address space is exhausted, reading would not
    // help.
    if (errno != ENODEV && errno != EACCES) throw os_error("map", path, errno);
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
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

std::optional<FileRange> MappedFile::range_of(std::span<const std::byte> part) const {
  SX_CHECK(part.empty() || (part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size()),
           "the bytes are not of this file");
  if (!regular_) return std::nullopt;
  return FileRange{.fd = fd_, .offset = part.empty() ? 0 : static_cast<uint64_t>(part.data() - bytes_.data())};
}

void MappedFile::check_unchanged() const {
  if (!regular_) return;
  struct stat s;
  if (::fstat(fd_, &s) != 0) throw os_error("look at", path_, errno);
  FileStamp now = stamp_of(s);
  if (now == stamp_) return;
  std::string what = now.size != stamp_.size ? fmt::format("its size was {} bytes and is {}", stamp_.size, now.size)
                                             : std::string("its time stamp changed");
  throw Error(ErrorCode::kIo, fmt::format("'{}' changed while it was read: {}", path_.string(), what),
              {"help: run again when no other process writes to it"});
}

bool MappedFile::fetch([[maybe_unused]] std::span<const std::byte> part) const {
#ifdef MADV_POPULATE_READ
  if (!mapped_ || part.empty()) return !mapped_;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Only whole pages, rounded inwards: neighbouring data may be in use.
  auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace sardonyx
