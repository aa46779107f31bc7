// Checks that a path stays inside a folder.
#pragma once

#include <filesystem>

namespace sardonyx {

// Whether `path` begins with the components of `root`. Compares names only: for paths without links and "..".
bool is_inside(const std::filesystem::path& root, const std::filesystem::path& path);

// Throws Error (kInvalidArgument) if a symbolic link between `folder` and `target` leads out of `folder`. By
// name, `target` is a path below `folder`; neither has to exist.
void require_inside(const std::filesystem::path& folder, const std::filesystem::path& target);

}  // namespace sardonyx
