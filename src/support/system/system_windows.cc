// system.h for Windows 10 and later. Descriptors are those of the C library, around handles that share
// everything.
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <winioctl.h>

#include <fcntl.h>
#include <io.h>
#include <process.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "support/system/system.h"

namespace sardonyx::sys {
namespace fs = std::filesystem;
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr size_t kCallLimit = size_t{1} << 30;

int errno_of(DWORD error) {
  switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_INVALID_DRIVE: return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE: return EACCES;
    case ERROR_WRITE_PROTECT: return EROFS;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_OUTOFMEMORY: return ENOMEM;
    case ERROR_NOT_SAME_DEVICE: return EXDEV;
    case ERROR_DIRECTORY: return ENOTDIR;
    case ERROR_FILENAME_EXCED_RANGE: return ENAMETOOLONG;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA: return EPIPE;
    case ERROR_INVALID_HANDLE: return EBADF;
    case ERROR_INVALID_FUNCTION:
    case ERROR_NOT_SUPPORTED: return ENOSYS;
    default: return EIO;
  }
}

bool failed() {
  errno = errno_of(::GetLastError());
  return false;
}

HANDLE handle_of(int fd) { return reinterpret_cast<HANDLE>(::_get_osfhandle(fd)); }

int descriptor_of(HANDLE handle, int flags) {
  if (handle == INVALID_HANDLE_VALUE) {
    failed();
    return -1;
  }
  const int fd = ::_open_osfhandle(reinterpret_cast<intptr_t>(handle), flags | _O_BINARY | _O_NOINHERIT);
  if (fd < 0) ::CloseHandle(handle);
  return fd;
}

bool is_folder(const fs::path& path) {
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

bool facts_of(HANDLE handle, FileFacts& facts) {
  facts = FileFacts{};
  if (::GetFileType(handle) != FILE_TYPE_DISK) return true;  // a pipe, a console
  BY_HANDLE_FILE_INFORMATION info;
  if (!::GetFileInformationByHandle(handle, &info)) return failed();
  const auto joined = [](DWORD high, DWORD low) { return uint64_t{high} << 32 | low; };
  facts.kind = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? FileFacts::Kind::kFolder : FileFacts::Kind::kRegular;
  facts.device = info.dwVolumeSerialNumber;
  facts.inode = joined(info.nFileIndexHigh, info.nFileIndexLow);
  facts.size = joined(info.nFileSizeHigh, info.nFileSizeLow);
  facts.allocated = facts.size;
  facts.modified_ns =
      static_cast<int64_t>(joined(info.ftLastWriteTime.dwHighDateTime, info.ftLastWriteTime.dwLowDateTime)) * 100;
  return true;
}

// The offset for ReadFile and WriteFile, which then act like pread and pwrite.
OVERLAPPED place(uint64_t offset) {
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return at;
}

// Files that were replaced while this process had them mapped, and are still to be deleted.
struct LeftOvers {
  std::mutex mutex;
  std::vector<fs::path> paths;
  std::atomic<bool> any = false;

  void add(fs::path path) {
    const std::lock_guard lock(mutex);
    paths.push_back(std::move(path));
    any = true;
  }
  void remove() {
    if (!any) return;
    const std::lock_guard lock(mutex);
    std::erase_if(paths, [](const fs::path& p) { return ::DeleteFileW(p.c_str()) != 0; });
    any = !paths.empty();
  }
  ~LeftOvers() { remove(); }
};

LeftOvers& left_overs() {
  static LeftOvers all;
  return all;
}

}  // namespace

bool look(int fd, FileFacts& facts) { return facts_of(handle_of(fd), facts); }

bool look(const fs::path& path, FileFacts& facts) {
  const HANDLE handle =
      ::CreateFileW(path.c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return failed();
  const bool good = facts_of(handle, facts);
  ::CloseHandle(handle);
  return good;
}

bool may_write(const fs::path& path) { return ::_waccess(path.c_str(), 2) == 0; }
bool may_run(const fs::path& path) { return fs::exists(path); }
bool is_folder_of_devices(const fs::path&) { return false; }

int open_to_read(const fs::path& path) {
  if (is_folder(path)) {
    errno = EISDIR;
    return -1;
  }
  return descriptor_of(
      ::CreateFileW(path.c_str(), GENERIC_READ, kShareAll, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr), _O_RDONLY);
}

int open_to_append(const fs::path& path) {
  return descriptor_of(
      ::CreateFileW(path.c_str(), GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr), _O_APPEND);
}

int create_new(const fs::path& path) {
  const fs::path folder = path.parent_path();
  FileFacts facts;
  if (!folder.empty() && look(folder, facts) && facts.kind != FileFacts::Kind::kFolder) {
    errno = ENOTDIR;
    return -1;
  }
  return descriptor_of(::CreateFileW(path.c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, kShareAll, nullptr, CREATE_NEW,
                                     FILE_ATTRIBUTE_NORMAL, nullptr),
                       _O_RDWR);
}

int create_unnamed(const fs::path&) {
  errno = EOPNOTSUPP;
  return -1;
}

bool close(int fd) { return ::_close(fd) == 0; }

int64_t read(int fd, std::span<std::byte> to) {
  return ::_read(fd, to.data(), static_cast<unsigned>(std::min(to.size(), kCallLimit)));
}

int64_t write(int fd, std::span<const std::byte> bytes) {
  return ::_write(fd, bytes.data(), static_cast<unsigned>(std::min(bytes.size(), kCallLimit)));
}

int64_t read_at(int fd, std::span<std::byte> to, uint64_t offset) {
  OVERLAPPED at = place(offset);
  DWORD done = 0;
  if (::ReadFile(handle_of(fd), to.data(), static_cast<DWORD>(std::min(to.size(), kCallLimit)), &done, &at)) return done;
  if (::GetLastError() == ERROR_HANDLE_EOF) return 0;
  failed();
  return -1;
}

int64_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  OVERLAPPED at = place(offset);
  DWORD done = 0;
  if (::WriteFile(handle_of(fd), bytes.data(), static_cast<DWORD>(std::min(bytes.size(), kCallLimit)), &done, &at)) return done;
  failed();
  return -1;
}

bool set_mode(int, unsigned) { return true; }  // permissions are inherited from the folder

bool set_size(int fd, uint64_t size) {
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(size);
  return ::SetFileInformationByHandle(handle_of(fd), FileEndOfFileInfo, &end, sizeof end) || failed();
}

bool flush_to_disk(int fd) { return ::FlushFileBuffers(handle_of(fd)) || failed(); }
void flush_folder_to_disk(const fs::path&) {}  // NTFS keeps a journal of names

bool give_name(int fd, const fs::path& name) {
  FileFacts facts;
  if (!look(fd, facts)) return false;
  const auto path = facts.kind == FileFacts::Kind::kRegular ? path_of(fd) : std::nullopt;
  if (!path) {
    errno = ENOSYS;
    return false;
  }
  return ::CreateHardLinkW(name.c_str(), path->c_str(), nullptr) || failed();
}

bool replace(const fs::path& from, const fs::path& to) {
  if (is_folder(to)) {
    errno = EISDIR;
    return false;
  }
  if (::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING)) {
    // wine keeps a name that is moved to another name of the same file.
    if (!::DeleteFileW(from.c_str()) && ::GetLastError() != ERROR_FILE_NOT_FOUND) left_overs().add(fs::absolute(from));
    return true;
  }
  const DWORD why = ::GetLastError();
  const bool in_use = why == ERROR_ACCESS_DENIED || why == ERROR_SHARING_VIOLATION || why == ERROR_USER_MAPPED_FILE;
  const fs::path aside = from.wstring() + L".old";
  // A mapped file cannot be deleted, but it can be renamed.
  if (in_use && may_write(to) && ::MoveFileExW(to.c_str(), aside.c_str(), 0)) {
    if (::MoveFileExW(from.c_str(), to.c_str(), 0)) {
      if (!::DeleteFileW(aside.c_str())) left_overs().add(fs::absolute(aside));
      return true;
    }
    const DWORD why_now = ::GetLastError();
    ::MoveFileExW(aside.c_str(), to.c_str(), 0);
    errno = errno_of(why_now);
    return false;
  }
  errno = errno_of(why);
  return false;
}

bool remove_file(const fs::path& path) { return ::DeleteFileW(path.c_str()) || failed(); }

bool exchange(const fs::path&, const fs::path&) {
  errno = ENOSYS;
  return false;
}

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
std::optional<DataPart> next_data(int, uint64_t, uint64_t) { return std::nullopt; }

const std::byte* map(int fd, size_t) {
  const HANDLE mapping = ::CreateFileMappingW(handle_of(fd), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) {
    failed();
    return nullptr;
  }
  const void* at = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  if (at == nullptr) failed();
  ::CloseHandle(mapping);  // the view keeps the mapping alive
  return static_cast<const std::byte*>(at);
}

void unmap(std::span<const std::byte> all) {
  ::UnmapViewOfFile(all.data());
  left_overs().remove();
}

bool fetch(std::span<const std::byte> part) {
  WIN32_MEMORY_RANGE_ENTRY range{const_cast<std::byte*>(part.data()), part.size()};
  return ::PrefetchVirtualMemory(::GetCurrentProcess(), 1, &range, 0) != 0;
}

// Unlocking pages that are not locked removes them from the working set.
void forget(std::span<const std::byte> part) { ::VirtualUnlock(const_cast<std::byte*>(part.data()), part.size()); }

void populate_code(const void*) {}

std::optional<fs::path> path_of(int fd) {
  std::wstring path(32'768, L'\0');
  const DWORD length =
      ::GetFinalPathNameByHandleW(handle_of(fd), path.data(), static_cast<DWORD>(path.size()), FILE_NAME_NORMALIZED);
  if (length == 0 || length >= path.size()) return std::nullopt;
  path.resize(length);
  // People expect "C:\folder", not "\\?\C:\folder".
  if (path.starts_with(L"\\\\?\\") && path.size() > 5 && path[5] == L':') path.erase(0, 4);
  return fs::path(path);
}

fs::path running_program() {
  std::wstring path(32'768, L'\0');
  path.resize(::GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  return path;
}

unsigned process_id() { return static_cast<unsigned>(::GetCurrentProcessId()); }
int64_t coarse_nanoseconds() { return static_cast<int64_t>(::GetTickCount64()) * 1'000'000; }

// Whether the stream is a console that understands escape sequences.
bool is_terminal(std::FILE* stream) {
  const HANDLE handle = handle_of(::_fileno(stream));
  DWORD mode = 0;
  return ::GetConsoleMode(handle, &mode) && ((mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0 ||
                                             ::SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING));
}

std::optional<unsigned> columns(std::FILE* stream) {
  CONSOLE_SCREEN_BUFFER_INFO info;
  if (!::GetConsoleScreenBufferInfo(handle_of(::_fileno(stream)), &info)) return std::nullopt;
  return static_cast<unsigned>(info.srWindow.Right - info.srWindow.Left + 1);
}

void* load_library(const fs::path& path, std::string& why) {
  const HMODULE library = ::LoadLibraryExW(fs::absolute(path).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library == nullptr) why = "Windows error " + std::to_string(::GetLastError());
  return reinterpret_cast<void*>(library);
}

void* find_function(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace sardonyx::sys
