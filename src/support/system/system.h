// The system calls that differ between Linux, macOS and Windows. No other code calls the operating system.
//
// Functions that return bool or a count return false or -1 on failure and set errno, on Windows too.
// Descriptors are those of the C library. On Windows they are opened such that other processes may rename and
// delete the file, as on other systems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace sardonyx::sys {

struct FileFacts {
  enum class Kind { kRegular, kFolder, kOther };  // other: a pipe, a device
  Kind kind = Kind::kOther;
  uint64_t device = 0, inode = 0;  // together they identify the file
  uint64_t size = 0;
  uint64_t allocated = 0;  // bytes on the disk; `size` if unknown
  int64_t modified_ns = 0;
  unsigned mode = 0;  // permissions; 0 on Windows
};

bool look(int fd, FileFacts& facts);
bool look(const std::filesystem::path& path, FileFacts& facts);  // follows links
bool may_write(const std::filesystem::path& path);
bool may_run(const std::filesystem::path& path);
// Whether links in that folder refer to open files, like /dev/stdout.
bool is_folder_of_devices(const std::filesystem::path& canonical);

// Descriptors, or -1.
int open_to_read(const std::filesystem::path& path);
int open_to_append(const std::filesystem::path& path);
int create_new(const std::filesystem::path& path);        // for reading and writing; EEXIST if the name is taken
int create_unnamed(const std::filesystem::path& folder);  // EOPNOTSUPP if the system has no unnamed files
bool close(int fd);

// Return the number of bytes, 0 at the end of the file, -1 on failure. Retry interrupted calls.
int64_t read(int fd, std::span<std::byte> to);
int64_t write(int fd, std::span<const std::byte> bytes);
int64_t read_at(int fd, std::span<std::byte> to, uint64_t offset);
int64_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset);

bool set_mode(int fd, unsigned mode);
bool set_size(int fd, uint64_t size);
bool flush_to_disk(int fd);
void flush_folder_to_disk(const std::filesystem::path& folder);

// Gives the open file another name, which must be free. False if the system cannot.
bool give_name(int fd, const std::filesystem::path& name);
// Renames a file and replaces the file at `to`, if any. Windows cannot delete a file while it is mapped: the
// old file is renamed, and deleted when this process unmaps it or exits.
bool replace(const std::filesystem::path& from, const std::filesystem::path& to);
bool remove_file(const std::filesystem::path& path);
// Exchanges two names atomically. ENOSYS if the system cannot.
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);

// Copies up to `size` bytes inside the kernel. ENOSYS if the system cannot.
int64_t copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size);
// ext4 does not share blocks between files: copying writes every byte, and preallocating pays.
bool is_on_ext4(int fd);
// Preallocates blocks without changing the file's size.
bool reserve(int fd, uint64_t bytes);
// Frees the blocks of `size` bytes at `offset`, if the system can. They must lie within the file.
void punch_hole(int fd, uint64_t offset, uint64_t size);
// The next range with data in a sparse file, between `offset` and `end`; empty if there is none. Nullopt if
// the system does not know.
struct DataPart {
  uint64_t begin = 0, end = 0;
};
std::optional<DataPart> next_data(int fd, uint64_t offset, uint64_t end);

// Maps a whole file for reading. Null on failure.
const std::byte* map(int fd, size_t size);
void unmap(std::span<const std::byte> all);
bool fetch(std::span<const std::byte> part);   // reads the pages in now; false if it could not
void forget(std::span<const std::byte> part);  // the pages will not be needed soon

// Maps code and constant tables of the library or program that contains `place` now with a few system calls.
// Otherwise some hundred page faults would do it during the first export, which would look (and be) slower
// and larger than later ones. This is a hint: an old kernel refuses it, with no harm done.
void populate_code(const void* place);

std::optional<std::filesystem::path> path_of(int fd);
std::filesystem::path running_program();  // empty if unknown
unsigned process_id();
int64_t coarse_nanoseconds();  // monotonic; resolution of some milliseconds

bool is_terminal(std::FILE* stream);
std::optional<unsigned> columns(std::FILE* stream);  // width of a terminal

// Replaces this process by the program, looked up in PATH; the arguments begin with its name. Returns only on
// failure. On Windows, runs the program, waits for it and exits with its status.
void become(const std::string& program, std::span<const std::string> arguments);

// Loads a shared library, which stays loaded, and finds a function in it. Null on failure.
void* load_library(const std::filesystem::path& path, std::string& why);
void* find_function(void* library, const char* name);

}  // namespace sardonyx::sys
