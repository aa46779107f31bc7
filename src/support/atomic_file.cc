#include "support/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "support/copy_range.h"
#include "support/inside.h"
#include "support/interrupt.h"
#include "support/os_error.h"

namespace sardonyx {
namespace {

constexpr size_t kBuffer = 1 << 16;
constexpr mode_t kMode = 0666;  // minus the umask
constexpr int kNameAttempts = 100;

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// /dev/stdout is a link to whatever a shell opened: perhaps a file, which must not be replaced.
bool is_of_the_system(const std::filesystem::path& link) {
  std::error_code none;
  const auto folder = std::filesystem::canonical(folder_of(link), none);
  return is_inside("/dev", folder) || is_inside("/proc", folder);
}

// The path through which an unnamed file can be linked to a name.
std::string handle_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

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
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::open() {
  if (target_.empty() || !target_.has_filename()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a name for a file", target_.string()));
  }
  struct stat old;
  bool exists = ::stat(target_.c_str(), &old) == 0;
  const bool is_link = std::filesystem::is_symlink(std::filesystem::symlink_status(target_));
  if (exists && S_ISDIR(old.st_mode)) throw os_error("write", target_, EISDIR);
  if (exists && (!S_ISREG(old.st_mode) || (is_link && is_of_the_system(target_)))) {
    direct_ = true;
    fd_ = ::open(target_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd_ < 0) throw os_error("write", target_, errno);
    return;
  }
  exists = exists && !is_link;
  // A read-only file must not be replaced either, even if the folder permits it.
  if (exists && ::access(target_.c_str(), W_OK) != 0) throw os_error("write", target_, errno);

  const std::filesystem::path folder = folder_of(target_);
  errno = EOPNOTSUPP;
  if (options_.unnamed) fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (fd_ >= 0 && ::access(handle_of(fd_).c_str(), F_OK) != 0) {  // no /proc: the file could never be given its name
    ::close(fd_);
    fd_ = -1;
    errno = EOPNOTSUPP;
  }
  if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    for (int attempt = 0; fd_ < 0 && attempt < kNameAttempts; ++attempt) {
      std::filesystem::path name = temporary_name();
      fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
      if (fd_ >= 0) temporary_ = name;
      if (fd_ < 0 && errno != EEXIST) break;
    }
  }
  if (fd_ < 0) throw os_error("write", target_, errno);
  if (exists) (void)::fchmod(fd_, old.st_mode & 07777);  // the new file keeps the old permissions if possible
}

std::filesystem::path AtomicFile::temporary_name() const {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  // Short whatever the target's name, because file systems limit the length of names.
  return folder_of(target_) / fmt::format(".sardonyx-{:x}-{:x}-{:x}.tmp", ::getpid(), now, count++);
}

void AtomicFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t done = direct_ ? ::write(fd_, bytes.data(), bytes.size())
                           : ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(written_));
    if (done < 0 && errno == EINTR) continue;
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
  copy_range(source, size, fd_, direct_ ? std::nullopt : std::optional(written_));
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
#ifdef __linux__
  // Preallocating saves ext4 a tenth compared to reserving page by page. File systems that share blocks
  // between files (btrfs, XFS) would allocate them for nothing; they report another type.
  constexpr uint64_t kWorthIt = 1 << 20;
  if (direct_ || bytes < kWorthIt || !is_on_ext4(fd_)) return;
  if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0 && (errno == ENOSPC || errno == EDQUOT))
    throw os_error("write", target_, errno);
  expected_ = bytes;
#endif
}

bool AtomicFile::link(int source) {
  SX_CHECK(fd_ >= 0 && size() == 0, "linked after something was written");
  if (direct_) return false;
  const std::filesystem::path name = temporary_name();
  if (::linkat(AT_FDCWD, handle_of(source).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) return false;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
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
    ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw os_error("write", target_, errno);
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::commit() {
  SX_CHECK(fd_ >= 0, "committed twice");
  flush();
  if (expected_ > written_ && ::ftruncate(fd_, static_cast<off_t>(written_)) != 0) throw os_error("write", target_, errno);
  if (options_.sync && !direct_ && ::fsync(fd_) != 0) throw os_error("write", target_, errno);
  if (!direct_) {
    // An unnamed file is put in place in two steps, because linking cannot replace a file.
    for (int attempt = 0; temporary_.empty(); ++attempt) {
      std::filesystem::path name = temporary_name();
      if (::linkat(AT_FDCWD, handle_of(fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = name;
      } else if (errno != EEXIST || attempt == kNameAttempts) {
        throw os_error("write", target_, errno);
      }
    }
  }
  // Network file systems may report a failed write only on close: check before the old file is gone.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) throw os_error("write", target_, errno);
  if (direct_) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw os_error("write", target_, errno);
  // Both names may already refer to one file; then rename does nothing and the temporary name remains.
  if (linked_) ::unlink(temporary_.c_str());
  temporary_.clear();
  if (options_.sync) {
    const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
      ::fsync(folder);
      ::close(folder);
    }
  }
}

}  // namespace sardonyx
