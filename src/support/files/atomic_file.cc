#include "support/files/atomic_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "support/files/copy_range.h"
#include "support/system/interrupt.h"
#include "support/system/os_error.h"
#include "support/system/system.h"

namespace sardonyx {
namespace {

constexpr size_t kBuffer = 1 << 16;
constexpr int kNameAttempts = 100;

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// /dev/stdout is a link to whatever a shell opened: perhaps a file, which must not be replaced.
bool is_of_the_system(const std::filesystem::path& link) {
  std::error_code none;
  const auto folder = std::filesystem::canonical(folder_of(link), none);
  return !none && sys::is_folder_of_devices(folder);
}

// Whether the disk or the user's share of it is full.
bool is_no_space(int number) {
#ifdef EDQUOT
  if (number == EDQUOT) return true;
#endif
  return number == ENOSPC;
}

// Makes a missing folder and its parents. A failure shows when a file in it is opened.
void make_folder(const std::filesystem::path& folder) {
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(folder, none)))
    std::filesystem::create_directories(folder, none);
}

}  // namespace

std::optional<FileStamp> replaced_at(const std::filesystem::path& target) {
  std::error_code none;
  if (std::filesystem::is_symlink(target, none)) return std::nullopt;
  return FileStamp::of(target);
}

AtomicFile::AtomicFile(std::filesystem::path target) : AtomicFile(std::move(target), Options{}) {}

AtomicFile::AtomicFile(std::filesystem::path target, Options options) : target_(std::move(target)), options_(options) {
  open();
  buffer_.reserve(kBuffer);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) sys::close(fd_);
  if (!temporary_.empty()) sys::remove_file(temporary_);
}

void AtomicFile::open() {
  if (target_.empty() || !target_.has_filename()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a name for a file", target_.string()));
  }
  using Kind = sys::FileFacts::Kind;
  sys::FileFacts old;
  bool exists = sys::look(target_, old);
  const bool is_link = std::filesystem::is_symlink(std::filesystem::symlink_status(target_));
  if (exists && old.kind == Kind::kFolder) throw os_error("write", target_, EISDIR);
  if (exists && (old.kind != Kind::kRegular || (is_link && is_of_the_system(target_)))) {
    direct_ = true;
    fd_ = sys::open_to_append(target_);
    if (fd_ < 0) throw os_error("write", target_, errno);
    return;
  }
  exists = exists && !is_link;
  // A read-only file must not be replaced either, even if the folder permits it.
  if (exists && !sys::may_write(target_)) throw os_error("write", target_, errno);

  make_folder(folder_of(target_));
  errno = EOPNOTSUPP;
  if (options_.unnamed) fd_ = sys::create_unnamed(folder_of(target_));
  if (fd_ < 0 && errno == EOPNOTSUPP) {
    for (int attempt = 0; fd_ < 0 && attempt < kNameAttempts; ++attempt) {
      std::filesystem::path name = temporary_name();
      fd_ = sys::create_new(name);
      if (fd_ >= 0) temporary_ = name;
      if (fd_ < 0 && errno != EEXIST) break;
    }
  }
  if (fd_ < 0) throw os_error("write", target_, errno);
  if (exists) (void)sys::set_mode(fd_, old.mode);  // the new file keeps the old permissions if possible
}

std::filesystem::path AtomicFile::temporary_name() const {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  // Short whatever the target's name, because file systems limit the length of names.
  return folder_of(target_) / fmt::format(".sardonyx-{:x}-{:x}-{:x}.tmp", sys::process_id(), now, count++);
}

void AtomicFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int64_t done = direct_ ? sys::write(fd_, bytes) : sys::write_at(fd_, bytes, written_);
    if (done < 0) throw os_error("write", target_, errno);
    written_ += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::flush() {
  put(buffer_);
  buffer_.clear();
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  SX_CHECK(fd_ >= 0 && !linked_, "written to after commit, or to a link");
  check_interrupt();
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() >= kBuffer) return put(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::append(FileRange source, uint64_t size) {
  SX_CHECK(fd_ >= 0 && !linked_, "written to after commit, or to a link");
  flush();
  copy_range(source, size, fd_, direct_ ? std::nullopt : std::optional(written_), target_);
  written_ += size;
}

void AtomicFile::append_zeros(uint64_t count) {
  static constexpr std::byte kZeros[4096] = {};
  while (count > 0) {
    const auto piece = static_cast<size_t>(std::min<uint64_t>(count, sizeof kZeros));
    append({kZeros, piece});
    count -= piece;
  }
}

void AtomicFile::pad_to(uint64_t alignment) {
  SX_CHECK(alignment > 0, "an alignment of zero bytes");
  append_zeros((alignment - size() % alignment) % alignment);
}

void AtomicFile::expect(uint64_t bytes) {
  // Preallocating saves ext4 a tenth compared to reserving page by page. File systems that share blocks
  // between files (btrfs, XFS) would allocate them for nothing; they report another type.
  constexpr uint64_t kWorthIt = 1 << 20;
  if (direct_ || bytes < kWorthIt || !sys::is_on_ext4(fd_)) return;
  if (!sys::reserve(fd_, bytes) && is_no_space(errno)) throw os_error("write", target_, errno);
  expected_ = bytes;
}

bool AtomicFile::link(int source) {
  SX_CHECK(fd_ >= 0 && size() == 0, "linked after something was written");
  if (direct_) return false;
  const std::filesystem::path name = temporary_name();
  if (!sys::give_name(source, name)) return false;
  if (!temporary_.empty()) sys::remove_file(temporary_);
  temporary_ = name;
  linked_ = true;
  return true;
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  SX_CHECK(fd_ >= 0, "written to after commit");
  SX_CHECK(offset <= size() && bytes.size() <= size() - offset, "write_at beyond what was appended");
  if (direct_) throw os_error("write", target_, ESPIPE);
  flush();
  while (!bytes.empty()) {
    const int64_t done = sys::write_at(fd_, bytes, offset);
    if (done < 0) throw os_error("write", target_, errno);
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::commit() {
  SX_CHECK(fd_ >= 0, "committed twice");
  flush();
  if (expected_ > written_ && !sys::set_size(fd_, written_)) throw os_error("write", target_, errno);
  if (options_.sync && !direct_ && !sys::flush_to_disk(fd_)) throw os_error("write", target_, errno);
  if (!direct_) {
    // An unnamed file is put in place in two steps, because linking cannot replace a file.
    for (int attempt = 0; temporary_.empty(); ++attempt) {
      std::filesystem::path name = temporary_name();
      if (sys::give_name(fd_, name)) {
        temporary_ = name;
      } else if (errno != EEXIST || attempt == kNameAttempts) {
        throw os_error("write", target_, errno);
      }
    }
  }
  // Network file systems may report a failed write only on close: check before the old file is gone.
  if (!sys::close(std::exchange(fd_, -1))) throw os_error("write", target_, errno);
  if (direct_) return;
  if (!sys::replace(temporary_, target_)) throw os_error("write", target_, errno);
  // Both names may already refer to one file; then rename does nothing and the temporary name remains.
  if (linked_) sys::remove_file(temporary_);
  temporary_.clear();
  if (options_.sync) sys::flush_folder_to_disk(folder_of(target_));
}

}  // namespace sardonyx
