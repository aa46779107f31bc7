// Whether a path stays in a folder.
#pragma once

#include <filesystem>

namespace sardonyx {

// Whether `path` begins with the components of `root`. Looks at names only: for paths without links and "..".
bool is_inside(const std::filesystem::path& root, const std::filesystem::path& path);

// Throws Error (kInvalidArgument) where a symbolic link on the way from `folder` to `target` leads out of `folder`. `target` is a path below
// `folder` as far as names go; neither must exist.
void require_inside(const std::filesystem::path& folder, const std::filesystem::path& target);

}  // namespace sardonyx
