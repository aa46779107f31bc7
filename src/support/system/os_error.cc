#include "support/system/os_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/system/system.h"

namespace sardonyx {
namespace {

std::string_view advice(int number) {
  switch (number) {
#ifdef EDQUOT
    case EDQUOT:
#endif
    case ENOSPC: return "free some space, or write to another disk";
    case EFBIG: return "the file would exceed the size that the file system or `ulimit -f` allows";
    case EMFILE:
    case ENFILE: return "too many files are open: see `ulimit -n`";
    case EROFS: return "the file system is mounted read-only: choose another folder";
    default: return {};
  }
}

}  // namespace

Error os_error(std::string_view doing, const std::filesystem::path& path, int number) {
  std::vector<std::string> notes;
  if (std::string_view text = advice(number); !text.empty()) notes.push_back(fmt::format("help: {}", text));
  return Error(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", doing, path.string(), std::generic_category().message(number)),
               std::move(notes));
}

std::filesystem::path path_of(int fd) { return sys::path_of(fd).value_or(fmt::format("descriptor {}", fd)); }

}  // namespace sardonyx
