#include "support/files/copy_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

#include "support/system/interrupt.h"
#include "support/system/os_error.h"
#include "support/system/system.h"

namespace sardonyx {
namespace {

constexpr size_t kPiece = size_t{1} << 19;  // stays in cache between read and write
constexpr uint64_t kCallLimit = uint64_t{1} << 26;

// Throws because the source ended with `missing` bytes left to copy.
[[noreturn]] void throw_short(FileRange from, uint64_t missing) {
  throw Error(ErrorCode::kIo,
              fmt::format("'{}' is too short: {} more bytes were expected at its end", path_of(from.fd).string(), missing));
}

// Whether the error comes from the disk, so that copying in another way would not help.
bool is_final(int number) {
#ifdef EDQUOT
  if (number == EDQUOT) return true;
#endif
  return number == ENOSPC || number == EFBIG || number == EIO;
}

void copy_bytes(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset, const std::filesystem::path& name) {
  uint64_t in = from.offset, out = to_offset.value_or(0);

  // The system's copy may share blocks or run on a server. ext4 copies 64 KiB at a time, which takes a third
  // longer than larger chunks. The call may stop at any point, for instance if it cannot cross file systems.
  const bool by_system = to_offset && !is_on_ext4(to);
  while (size > 0 && by_system) {
    check_interrupt();
    const int64_t done = sys::copy(from.fd, in, to, out, std::min(size, kCallLimit));
    if (done < 0 && is_final(errno)) throw os_error("write", name, errno);
    if (done <= 0) break;  // fall back to read and write, which distinguish a short source from an unsupported call
    size -= static_cast<uint64_t>(done);
    in += static_cast<uint64_t>(done);
    out += static_cast<uint64_t>(done);
  }

  if (size == 0) return;
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(std::min<uint64_t>(size, kPiece));
  while (size > 0) {
    check_interrupt();
    const int64_t got = sys::read_at(from.fd, {piece.get(), static_cast<size_t>(std::min<uint64_t>(size, kPiece))}, in);
    if (got < 0) throw os_error("read", path_of(from.fd), errno);
    if (got == 0) throw_short(from, size);
    for (std::span<const std::byte> left(piece.get(), static_cast<size_t>(got)); !left.empty();) {
      const int64_t put = to_offset ? sys::write_at(to, left, out) : sys::write(to, left);
      if (put < 0) throw os_error("write", name, errno);
      left = left.subspan(static_cast<size_t>(put));
      out += static_cast<uint64_t>(put);
    }
    in += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
}

// Makes `size` bytes at `offset` read as zeros, without allocating blocks if the system can.
void make_hole(int to, uint64_t offset, uint64_t size, const std::filesystem::path& name) {
  sys::FileFacts facts;
  if (!sys::look(to, facts)) throw os_error("look at", name, errno);
  if (facts.size < offset + size && !sys::set_size(to, offset + size)) throw os_error("write", name, errno);
  sys::punch_hole(to, offset, size);
}

}  // namespace

void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset, const std::filesystem::path& name) {
  if (!to_offset || !has_holes(from.fd)) return copy_bytes(from, size, to, to_offset, name);
  const uint64_t end = from.offset + size;
  for (uint64_t at = from.offset; at < end;) {
    check_interrupt();
    const auto place = [&](uint64_t position) { return *to_offset + (position - from.offset); };
    const auto data = sys::next_data(from.fd, at, end);
    if (!data) return copy_bytes({from.fd, at}, end - at, to, place(at), name);  // holes cannot be found: copy everything
    if (data->begin > at) make_hole(to, place(at), data->begin - at, name);
    copy_bytes({from.fd, data->begin}, data->end - data->begin, to, place(data->begin), name);
    at = data->end;
  }
}

bool has_holes(int fd) {
  constexpr uint64_t kBlock = 512;
  sys::FileFacts facts;
  return sys::look(fd, facts) && facts.kind == sys::FileFacts::Kind::kRegular && facts.allocated / kBlock < facts.size / kBlock;
}

bool is_on_ext4(int fd) { return sys::is_on_ext4(fd); }

void read_range(FileRange from, std::span<std::byte> to) {
  while (!to.empty()) {
    const int64_t got = sys::read_at(from.fd, to, from.offset);
    if (got < 0) throw os_error("read", path_of(from.fd), errno);
    if (got == 0) throw_short(from, to.size());
    from.offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
}

}  // namespace sardonyx
