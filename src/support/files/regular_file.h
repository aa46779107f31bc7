// Refuses paths in files that lead to pipes or devices.
#pragma once

#include <filesystem>

namespace sardonyx {

// Throws Error (kInvalidModel) if `path` is a pipe or a device: reading one might block, the other might
// never end. For files that a model names or that lie in its package. If nothing is at `path`, opening it
// reports that.
void require_regular(const std::filesystem::path& path);

}  // namespace sardonyx
