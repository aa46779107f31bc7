// system.h for Linux and macOS.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "support/files/inside.h"
#include "support/system/system.h"

#ifdef __linux__
#include <link.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <sys/param.h>
#endif

namespace sardonyx::sys {
namespace fs = std::filesystem;
namespace {

constexpr mode_t kMode = 0666;                  // minus the umask
constexpr size_t kCallLimit = size_t{1} << 30;  // Linux transfers at most 2^31 - 4096 bytes per call, macOS fails above 2^31

template <class Call>
int64_t again_if_interrupted(Call&& call) {
  for (;;) {
    const ssize_t done = call();
    if (done >= 0 || errno != EINTR) return done;
  }
}

#ifdef __linux__
// The path through which an open file can be linked to a name.
std::string handle_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }
#endif

}  // namespace

bool may_write(const fs::path& path) { return ::access(path.c_str(), W_OK) == 0; }
bool may_run(const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; }
bool is_folder_of_devices(const fs::path& canonical) { return is_inside("/dev", canonical) || is_inside("/proc", canonical); }

int open_to_read(const fs::path& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }
int open_to_append(const fs::path& path) { return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC); }
int create_new(const fs::path& path) { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode); }

int create_unnamed([[maybe_unused]] const fs::path& folder) {
#ifdef O_TMPFILE
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (fd >= 0 && ::access(handle_of(fd).c_str(), F_OK) == 0) return fd;
  const bool nameless = fd >= 0;  // no /proc: the file could never be given its name
  if (nameless) ::close(fd);
  if (nameless || errno == EISDIR || errno == EINVAL) errno = EOPNOTSUPP;
#else
  errno = EOPNOTSUPP;
#endif
  return -1;
}

bool close(int fd) { return ::close(fd) == 0 || errno == EINTR; }

int64_t read(int fd, std::span<std::byte> to) {
  return again_if_interrupted([&] { return ::read(fd, to.data(), std::min(to.size(), kCallLimit)); });
}

int64_t write(int fd, std::span<const std::byte> bytes) {
  return again_if_interrupted([&] { return ::write(fd, bytes.data(), std::min(bytes.size(), kCallLimit)); });
}

int64_t read_at(int fd, std::span<std::byte> to, uint64_t offset) {
  return again_if_interrupted(
      [&] { return ::pread(fd, to.data(), std::min(to.size(), kCallLimit), static_cast<off_t>(offset)); });
}

int64_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return again_if_interrupted(
      [&] { return ::pwrite(fd, bytes.data(), std::min(bytes.size(), kCallLimit), static_cast<off_t>(offset)); });
}

bool set_mode(int fd, unsigned mode) { return ::fchmod(fd, static_cast<mode_t>(mode)) == 0; }
bool set_size(int fd, uint64_t size) { return ::ftruncate(fd, static_cast<off_t>(size)) == 0; }

bool flush_to_disk(int fd) {
#ifdef __APPLE__
  if (::fcntl(fd, F_FULLFSYNC) == 0) return true;  // fsync does not flush the disk's own cache there
#endif
  return ::fsync(fd) == 0;
}

void flush_folder_to_disk(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

bool give_name(int fd, const fs::path& name) {
#ifdef __linux__
  return ::linkat(AT_FDCWD, handle_of(fd).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
#else
  // Linking goes by path, where another file may be by now: compare.
  const auto path = path_of(fd);
  FileFacts open, linked;
  if (!path || ::link(path->c_str(), name.c_str()) != 0) return false;
  if (look(fd, open) && look(name, linked) && open.device == linked.device && open.inode == linked.inode) return true;
  ::unlink(name.c_str());
  errno = ENOENT;
  return false;
#endif
}

bool replace(const fs::path& from, const fs::path& to) { return ::rename(from.c_str(), to.c_str()) == 0; }
bool remove_file(const fs::path& path) { return ::unlink(path.c_str()) == 0; }

bool exchange([[maybe_unused]] const fs::path& a, [[maybe_unused]] const fs::path& b) {
#if defined(__linux__) && defined(SYS_renameat2)
  constexpr unsigned kExchange = 2;
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), kExchange) == 0;
#elif defined(__APPLE__) && defined(RENAME_SWAP)
  return ::renamex_np(a.c_str(), b.c_str(), RENAME_SWAP) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

#ifdef __linux__
int64_t copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) {
  auto in = static_cast<off_t>(from_offset), out = static_cast<off_t>(to_offset);
  return again_if_interrupted([&] { return ::copy_file_range(from, &in, to, &out, std::min<uint64_t>(size, kCallLimit), 0); });
}

bool is_on_ext4(int fd) {
  struct statfs system;
  return ::fstatfs(fd, &system) == 0 && static_cast<unsigned long>(system.f_type) == EXT4_SUPER_MAGIC;
}

bool reserve(int fd, uint64_t bytes) { return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0; }

void punch_hole(int fd, uint64_t offset, uint64_t size) {
  (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
}
#else
int64_t copy(int, uint64_t, int, uint64_t, uint64_t) {
  errno = ENOSYS;
  return -1;
}

bool is_on_ext4(int) { return false; }

bool reserve(int, uint64_t) {
  errno = ENOSYS;
  return false;
}

void punch_hole(int, uint64_t, uint64_t) {}
#endif

std::optional<DataPart> next_data([[maybe_unused]] int fd, [[maybe_unused]] uint64_t offset, [[maybe_unused]] uint64_t end) {
#ifdef SEEK_DATA
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  struct stat s;
  // ENXIO: a hole up to the end of the file.
  if (data < 0 && errno == ENXIO && ::fstat(fd, &s) == 0 && static_cast<uint64_t>(s.st_size) >= end) return DataPart{end, end};
  if (data < 0) return std::nullopt;
  const uint64_t begin = std::min(static_cast<uint64_t>(data), end);
  if (begin == end) return DataPart{end, end};
  const off_t hole = ::lseek(fd, data, SEEK_HOLE);
  return DataPart{begin, hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end)};
#else
  return std::nullopt;
#endif
}

const std::byte* map(int fd, size_t size) {
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<const std::byte*>(at);
}

void unmap(std::span<const std::byte> all) { ::munmap(const_cast<std::byte*>(all.data()), all.size()); }

bool fetch([[maybe_unused]] std::span<const std::byte> part) {
#ifdef MADV_POPULATE_READ
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

void forget(std::span<const std::byte> part) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Only whole pages, rounded inwards: neighboring data may be in use.
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

#ifdef MADV_POPULATE_READ
void populate_code(const void* place) {
  auto visit = [](dl_phdr_info* info, size_t, void* data) {
    const auto here = reinterpret_cast<uintptr_t>(data);
    const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    bool ours = false;
    auto each_segment = [&](auto&& f) {
      for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& h = info->dlpi_phdr[i];
        if (h.p_type == PT_LOAD && (h.p_flags & PF_W) == 0) f(info->dlpi_addr + h.p_vaddr, h.p_memsz);
      }
    };
    each_segment([&](uintptr_t at, size_t size) { ours = ours || (here >= at && here < at + size); });
    if (!ours) return 0;
    each_segment([&](uintptr_t at, size_t size) {
      const uintptr_t start = at / page * page;
      ::madvise(reinterpret_cast<void*>(start), at + size - start, MADV_POPULATE_READ);
    });
    return 1;
  };
  ::dl_iterate_phdr(visit, const_cast<void*>(place));
}
#else
void populate_code(const void*) {}
#endif

std::optional<fs::path> path_of(int fd) {
#ifdef __APPLE__
  char path[MAXPATHLEN];
  if (::fcntl(fd, F_GETPATH, path) != 0) return std::nullopt;
  return fs::path(path);
#elif defined(__linux__)
  std::error_code failed;
  fs::path path = fs::read_symlink(handle_of(fd), failed);
  if (failed) return std::nullopt;
  return path;
#else
  return std::nullopt;
#endif
}

fs::path running_program() {
#ifdef __APPLE__
  uint32_t size = 0;
  ::_NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (::_NSGetExecutablePath(path.data(), &size) != 0) return {};
  path.resize(path.find('\0'));
  return path;
#else
  std::error_code failed;
  fs::path path = fs::read_symlink("/proc/self/exe", failed);
  return failed ? fs::path() : path;
#endif
}

unsigned process_id() { return static_cast<unsigned>(::getpid()); }

int64_t coarse_nanoseconds() {
  timespec t{};
#ifdef CLOCK_MONOTONIC_COARSE
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
#else
  ::clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::optional<unsigned> columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

void* load_library(const fs::path& path, std::string& why) {
  // dlopen would search the system's folders for a bare name.
  void* library = ::dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) why = ::dlerror();
  return library;
}

void* find_function(void* library, const char* name) { return ::dlsym(library, name); }

}  // namespace sardonyx::sys
