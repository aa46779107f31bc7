#include "support/files/inside.h"

#include <fmt/format.h>

#include <algorithm>

#include "sardonyx/error.h"

namespace sardonyx {
namespace fs = std::filesystem;

bool is_inside(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

void require_inside(const fs::path& folder, const fs::path& target) {
  std::error_code error;
  // "new/": a trailing separator would remain as an empty component if the folder does not exist yet.
  const fs::path root = folder.has_filename() || !folder.has_relative_path() ? folder : folder.parent_path();
  // A relative path of which nothing exists yet would stay relative.
  const auto real = [&](const fs::path& p) { return fs::weakly_canonical(fs::absolute(p.empty() ? "." : p), error); };
  const fs::path inside = real(root);
  if (!error && is_inside(inside, real(target.parent_path())) && !error) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} would be written outside of {}: a symbolic link leads there", target.string(), folder.string()),
              {"help: remove the link, or name the folder that it leads to"});
}

}  // namespace sardonyx
