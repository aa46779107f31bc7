// look() of system.h where there is stat(): on all systems but Windows.
#include <sys/stat.h>

#include <ctime>

#include "support/system/system.h"

namespace sardonyx::sys {
namespace {

FileFacts facts_of(const struct stat& s) {
  FileFacts facts;
  facts.kind = S_ISREG(s.st_mode)   ? FileFacts::Kind::kRegular
               : S_ISDIR(s.st_mode) ? FileFacts::Kind::kFolder
                                    : FileFacts::Kind::kOther;
  facts.device = static_cast<uint64_t>(s.st_dev);
  facts.inode = s.st_ino;
  facts.size = static_cast<uint64_t>(s.st_size);
#ifdef __wasi__  // it counts no blocks, and has no permissions
  facts.allocated = facts.size;
#else
  facts.allocated = static_cast<uint64_t>(s.st_blocks) * 512;
  facts.mode = s.st_mode & 07777;
#endif
#ifdef __APPLE__
  const timespec& modified = s.st_mtimespec;
#else
  const timespec& modified = s.st_mtim;
#endif
  facts.modified_ns = int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec;
  return facts;
}

}  // namespace

bool look(int fd, FileFacts& facts) {
  struct stat s;
  if (::fstat(fd, &s) != 0) return false;
  facts = facts_of(s);
  return true;
}

bool look(const std::filesystem::path& path, FileFacts& facts) {
  struct stat s;
  if (::stat(path.c_str(), &s) != 0) return false;
  facts = facts_of(s);
  return true;
}

}  // namespace sardonyx::sys
