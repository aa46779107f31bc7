// system.h for WebAssembly in a browser: WASI preview 1, and two functions of the page that loads the program
// (packaging/npm/host.js). Files are not mapped but read.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "support/system/system.h"

// Makes the bytes from `from` a part of `to` without copying them: the page keeps the file that was given to
// it. Returns the number of bytes, or -1 if these descriptors cannot do that.
__attribute__((import_module("sardonyx"), import_name("copy"))) extern "C" int64_t sardonyx_copy(int32_t from,
                                                                                                 int64_t from_offset,
                                                                                                 int32_t to, int64_t to_offset,
                                                                                                 int64_t size);

// The tag of C++ exceptions, which the compiler leaves to the C++ runtime, and zig's runtime leaves out.
__asm__(
    ".tagtype __cpp_exception i32\n"
    ".globl __cpp_exception\n"
    "__cpp_exception:\n");

// Calls that the headers of the C library declare and it does not have. A hint, and a copy that is then done
// by reading.
extern "C" int madvise(void*, size_t, int) { return 0; }
extern "C" ssize_t sendfile(int, int, off_t*, size_t) {
  errno = ENOSYS;
  return -1;
}

namespace sardonyx::sys {
namespace fs = std::filesystem;
namespace {

constexpr mode_t kMode = 0666;
constexpr size_t kCallLimit = size_t{1} << 30;

constexpr size_t kPage = 64 * 1024;
std::vector<std::span<std::byte>> free_pages;

// At least `size` bytes in whole pages; none if memory is exhausted.
std::span<std::byte> take_pages(size_t size) {
  const auto fits = std::ranges::find_if(free_pages, [&](std::span<std::byte> pages) { return pages.size() >= size; });
  if (fits != free_pages.end()) {
    const std::span<std::byte> found = *fits;
    free_pages.erase(fits);
    return found;
  }
  const size_t pages = (size + kPage - 1) / kPage;
  const size_t first = __builtin_wasm_memory_grow(0, pages);
  if (first == SIZE_MAX) return {};
  return {reinterpret_cast<std::byte*>(first * kPage), pages * kPage};
}

int64_t no_such_call() {
  errno = ENOSYS;
  return -1;
}

}  // namespace

bool may_write(const fs::path& path) { return fs::exists(path); }
bool may_run(const fs::path&) { return false; }
bool is_folder_of_devices(const fs::path&) { return false; }

int open_to_read(const fs::path& path) { return ::open(path.c_str(), O_RDONLY); }
int open_to_append(const fs::path& path) { return ::open(path.c_str(), O_WRONLY | O_APPEND); }
int create_new(const fs::path& path) { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, kMode); }

int create_unnamed(const fs::path&) {
  errno = EOPNOTSUPP;
  return -1;
}

bool close(int fd) { return ::close(fd) == 0; }

int64_t read(int fd, std::span<std::byte> to) { return ::read(fd, to.data(), std::min(to.size(), kCallLimit)); }
int64_t write(int fd, std::span<const std::byte> bytes) {
  return ::write(fd, bytes.data(), std::min(bytes.size(), kCallLimit));
}

int64_t read_at(int fd, std::span<std::byte> to, uint64_t offset) {
  return ::pread(fd, to.data(), std::min(to.size(), kCallLimit), static_cast<off_t>(offset));
}

int64_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return ::pwrite(fd, bytes.data(), std::min(bytes.size(), kCallLimit), static_cast<off_t>(offset));
}

bool set_mode(int, unsigned) { return true; }  // files of the page have no permissions
bool set_size(int fd, uint64_t size) { return ::ftruncate(fd, static_cast<off_t>(size)) == 0; }
bool flush_to_disk(int) { return true; }
void flush_folder_to_disk(const fs::path&) {}
bool give_name(int, const fs::path&) { return no_such_call() == 0; }
bool replace(const fs::path& from, const fs::path& to) { return ::rename(from.c_str(), to.c_str()) == 0; }
bool remove_file(const fs::path& path) { return ::unlink(path.c_str()) == 0; }
bool exchange(const fs::path&, const fs::path&) { return no_such_call() == 0; }

int64_t copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) {
  const int64_t done =
      sardonyx_copy(from, static_cast<int64_t>(from_offset), to, static_cast<int64_t>(to_offset), static_cast<int64_t>(size));
  return done < 0 ? no_such_call() : done;
}

bool is_on_ext4(int) { return false; }
bool reserve(int, uint64_t) { return no_such_call() == 0; }
void punch_hole(int, uint64_t, uint64_t) {}
std::optional<DataPart> next_data(int, uint64_t, uint64_t) { return std::nullopt; }

// There is nothing to map: the bytes are read, once. Their pages come from the system itself, because zig's
// malloc rounds up to a power of two; pages of files that were unmapped are used again, since the memory of a
// program never shrinks.
const std::byte* map(int fd, size_t size) {
  const std::span<std::byte> pages = take_pages(size);
  if (pages.empty()) {
    errno = ENOMEM;
    return nullptr;
  }
  for (size_t done = 0; done < size;) {
    const int64_t got = read_at(fd, pages.subspan(done, size - done), done);
    if (got <= 0) {
      if (got == 0) errno = EIO;  // the file ends early
      free_pages.push_back(pages);
      return nullptr;
    }
    done += static_cast<size_t>(got);
  }
  return pages.data();
}

void unmap(std::span<const std::byte> all) {
  const size_t size = (all.size() + kPage - 1) / kPage * kPage;
  free_pages.push_back({const_cast<std::byte*>(all.data()), size});
}

bool fetch(std::span<const std::byte>) { return false; }
void forget(std::span<const std::byte>) {}
void populate_code(const void*) {}

std::optional<fs::path> path_of(int) { return std::nullopt; }
fs::path running_program() { return {}; }
unsigned process_id() { return 1; }

int64_t coarse_nanoseconds() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool is_terminal(std::FILE*) { return false; }
std::optional<unsigned> columns(std::FILE*) { return std::nullopt; }

void become(const std::string&, std::span<const std::string>) { no_such_call(); }

void* load_library(const fs::path&, std::string& why) {
  why = "a browser loads no plugins";
  return nullptr;
}

void* find_function(void*, const char*) { return nullptr; }

}  // namespace sardonyx::sys
