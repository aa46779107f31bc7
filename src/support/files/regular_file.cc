#include "support/files/regular_file.h"

#include <fmt/format.h>

#include <system_error>

#include "sardonyx/error.h"

namespace sardonyx {

void require_regular(const std::filesystem::path& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return;
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' is not a regular file", path.string()));
}

}  // namespace sardonyx
