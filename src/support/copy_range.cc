#include "support/copy_range.h"

#include <fmt/format.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/magic.h>
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

constexpr size_t kPiece = size_t{1} << 19;  // stays in the cache between reading and writing
constexpr uint64_t kCallLimit = uint64_t{1} << 26;

// The bytes of `from` end before `missing` more were copied.
[[noreturn]] void throw_short(FileRange from, uint64_t missing) {
  throw Error(ErrorCode::kIo,
              fmt::format("'{}' is too short: {} more bytes were expected at its end", path_of(from.fd).string(), missing));
}

}  // namespace

void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset) {
  auto in = static_cast<off_t>(from.offset);
  auto out = static_cast<off_t>(to_offset.value_or(0));

  // The system's own copy may share blocks, or happen on a server. On ext4 it goes 64 KiB at a time, which takes a third longer than
  // larger pieces. It may stop at any point, for instance where it cannot cross file systems.
  const bool by_system = to_offset && !is_on_ext4(to);
  while (size > 0 && by_system) {
    check_interrupt();
    ssize_t done = ::copy_file_range(from.fd, &in, to, &out, std::min(size, kCallLimit), 0);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO)) {
      throw os_error("write", path_of(to), errno);
    }
    if (done <= 0) break;  // what is left goes the slow way, which also tells a short source from a shy system
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
