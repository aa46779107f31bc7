#include "support/copy_range.h"

#include <fmt/format.h>
#include <unistd.h>

#ifdef __linux__
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

#include "support/interrupt.h"
#include "support/os_error.h"

namespace sardonyx {
namespace {

constexpr size_t kPiece = size_t{1} << 19;  // stays in cache between read and write
constexpr uint64_t kCallLimit = uint64_t{1} << 26;

// Throws because the source ended with `missing` bytes left to copy.
[[noreturn]] void throw_short(FileRange from, uint64_t missing) {
  throw Error(ErrorCode::kIo,
              fmt::format("'{}' is too short: {} more bytes were expected at its end", path_of(from.fd).string(), missing));
}

void copy_bytes(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset) {
  auto in = static_cast<off_t>(from.offset);
  auto out = static_cast<off_t>(to_offset.value_or(0));

  // The system's copy may share blocks or run on a server. ext4 copies 64 KiB at a time, which takes a third
  // longer than larger chunks. The call may stop at any point, for instance if it cannot cross file systems.
  const bool by_system = to_offset && !is_on_ext4(to);
  while (size > 0 && by_system) {
    check_interrupt();
    ssize_t done = ::copy_file_range(from.fd, &in, to, &out, std::min(size, kCallLimit), 0);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO)) {
      throw os_error("write", path_of(to), errno);
    }
    if (done <= 0) break;  // fall back to read and write, which distinguish a short source from an unsupported call
    size -= static_cast<uint64_t>(done);
  }

  if (size == 0) return;
  auto piece = std::make_unique_for_overwrite<std::byte[]>(std::min<uint64_t>(size, kPiece));
  while (size > 0) {
    check_interrupt();
    ssize_t got = ::pread(from.fd, piece.get(), std::min<uint64_t>(size, kPiece), in);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw os_error("read", path_of(from.fd), errno);
    if (got == 0) throw_short(from, size);
    for (ssize_t done = 0; done < got;) {
      const std::byte* at = piece.get() + done;
      const auto left = static_cast<size_t>(got - done);
      ssize_t put = to_offset ? ::pwrite(to, at, left, out) : ::write(to, at, left);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw os_error("write", path_of(to), errno);
      done += put;
      out += put;
    }
    in += got;
    size -= static_cast<uint64_t>(got);
  }
}

}  // namespace

#if defined(__linux__) && defined(SEEK_DATA)
namespace {

// Makes `size` bytes at `offset` read as zeros, without allocating blocks if the system can.
void make_hole(int to, uint64_t offset, uint64_t size) {
  struct stat s;
  if (::fstat(to, &s) != 0) throw os_error("look at", path_of(to), errno);
  const auto end = static_cast<off_t>(offset + size);
  if (s.st_size < end && ::ftruncate(to, end) != 0) throw os_error("write", path_of(to), errno);
  (void)::fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
}

}  // namespace

void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset) {
  if (!to_offset || !has_holes(from.fd)) return copy_bytes(from, size, to, to_offset);
  const uint64_t end = from.offset + size;
  for (uint64_t at = from.offset; at < end;) {
    check_interrupt();
    const auto place = [&](uint64_t position) { return *to_offset + (position - from.offset); };
    const off_t data = ::lseek(from.fd, static_cast<off_t>(at), SEEK_DATA);
    struct stat s;
    // ENXIO: a hole up to the end of the file. If holes cannot be found, everything is copied.
    if (data < 0 && errno == ENXIO && ::fstat(from.fd, &s) == 0 && static_cast<uint64_t>(s.st_size) >= end)
      return make_hole(to, place(at), end - at);
    if (data < 0) return copy_bytes({from.fd, at}, end - at, to, place(at));
    const uint64_t begin = std::min(static_cast<uint64_t>(data), end);
    if (begin > at) make_hole(to, place(at), begin - at);
    if (begin == end) return;
    const off_t hole = ::lseek(from.fd, data, SEEK_HOLE);
    at = hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end);
    copy_bytes({from.fd, begin}, at - begin, to, place(begin));
  }
}

bool has_holes(int fd) {
  constexpr off_t kBlock = 512;
  struct stat s;
  return ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_blocks < s.st_size / kBlock;
}
#else
void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset) {
  copy_bytes(from, size, to, to_offset);
}

bool has_holes(int) { return false; }
#endif

bool is_on_ext4([[maybe_unused]] int fd) {
#ifdef __linux__
  struct statfs system;
  return ::fstatfs(fd, &system) == 0 && system.f_type == EXT4_SUPER_MAGIC;
#else
  return false;
#endif
}

void read_range(FileRange from, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(from.fd, to.data(), to.size(), static_cast<off_t>(from.offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw os_error("read", path_of(from.fd), errno);
    if (got == 0) throw_short(from, to.size());
    from.offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
}

}  // namespace sardonyx
