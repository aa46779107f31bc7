// What may be opened because a file names it.
#pragma once

#include <filesystem>

namespace sardonyx {

// Throws Error (kInvalidModel) where `path` leads to a pipe or a device: one would be waited for, the other might never end. For files that a
// model names, or that lie in its package. Where nothing is at `path`, opening it says so.
void require_regular(const std::filesystem::path& path);

}  // namespace sardonyx
