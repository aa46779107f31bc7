// What Linux, macOS and Windows do each in their own way. Nothing else in Sardonyx calls the operating system.
//
// Functions that return bool or a count return false or -1 on failure and say why in errno, on Windows too. Descriptors are those of the C
// library; on Windows they are opened so that others may rename and delete the file, as everywhere else.
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
  uint64_t device = 0, inode = 0;  // together: which file it is
  uint64_t size = 0;
  uint64_t allocated = 0;  // bytes that it takes on the disk; `size` where the system does not tell
  int64_t modified_ns = 0;
  unsigned mode = 0;  // permissions; 0 on Windows
};

bool look(int fd, FileFacts& facts);
bool look(const std::filesystem::path& path, FileFacts& facts);  // follows links
bool may_write(const std::filesystem::path& path);
bool may_run(const std::filesystem::path& path);
// Whether links in that folder lead to what a shell opened: /dev/stdout.
bool is_folder_of_devices(const std::filesystem::path& canonical);

// Descriptors, or -1.
int open_to_read(const std::filesystem::path& path);
int open_to_append(const std::filesystem::path& path);
int create_new(const std::filesystem::path& path);        // to read and write; EEXIST where something is
int create_unnamed(const std::filesystem::path& folder);  // EOPNOTSUPP where the system has no files without a name
bool close(int fd);

// Bytes that were read or written, 0 at the end, -1 on failure. Interrupted calls are made again.
int64_t read(int fd, std::span<std::byte> to);
int64_t write(int fd, std::span<const std::byte> bytes);
int64_t read_at(int fd, std::span<std::byte> to, uint64_t offset);
int64_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset);

bool set_mode(int fd, unsigned mode);
bool set_size(int fd, uint64_t size);
bool flush_to_disk(int fd);
void flush_folder_to_disk(const std::filesystem::path& folder);

// Gives the open file `fd` one more name, which must be free. False where the system cannot.
bool give_name(int fd, const std::filesystem::path& name);
// Gives a file the name `to`, whatever file was there. On Windows a file that somebody has mapped cannot go at once: it leaves its name to
// the new one, and is removed when this process unmaps it or ends.
bool replace(const std::filesystem::path& from, const std::filesystem::path& to);
bool remove_file(const std::filesystem::path& path);
// Exchanges two names in one step. ENOSYS where the system cannot.
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);

// Copies up to `size` bytes without passing them through this process. ENOSYS where the system cannot.
int64_t copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size);
// Whether to copy there is to write every byte, and blocks may be reserved: ext4 shares none between files.
bool is_on_ext4(int fd);
// Reserves blocks for that many bytes, without making the file larger.
bool reserve(int fd, uint64_t bytes);
// `size` bytes at `offset` of a file that is long enough become zeros that take no space, where the system can do that.
void punch_hole(int fd, uint64_t offset, uint64_t size);
// The next part of a sparse file that holds data, between `offset` and `end`; empty if there is none. Nullopt where the system does not tell.
struct DataPart {
  uint64_t begin = 0, end = 0;
};
std::optional<DataPart> next_data(int fd, uint64_t offset, uint64_t end);

// A whole file as memory that is read only. Null where it failed.
const std::byte* map(int fd, size_t size);
void unmap(std::span<const std::byte> all);
bool fetch(std::span<const std::byte> part);   // false: touch it to have it
void forget(std::span<const std::byte> part);  // of a mapping: needed no longer

// Maps code and constant tables of the library or program that `place` lies in now, in a few system calls, instead of by some hundred page
// faults during the first export, which would then look (and be) slower and larger than later ones. A hint.
void populate_code(const void* place);

std::optional<std::filesystem::path> path_of(int fd);
std::filesystem::path running_program();  // empty where the system does not tell
unsigned process_id();
int64_t coarse_nanoseconds();  // of a clock that never goes back; costs no more than a call

bool is_terminal(std::FILE* stream);
std::optional<unsigned> columns(std::FILE* stream);  // of a terminal

// Goes on as that program, as a shell would find it; the arguments begin with its name. Returns only on failure. Where the system cannot
// exchange a process's program, waits for the other and ends as it did.
void become(const std::string& program, std::span<const std::string> arguments);

// A shared library, and a function of it; null and a reason on failure. It stays loaded.
void* load_library(const std::filesystem::path& path, std::string& why);
void* find_function(void* library, const char* name);

}  // namespace sardonyx::sys
