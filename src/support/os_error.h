// Errors of the operating system as sardonyx::Error.
#pragma once

#include <filesystem>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx {

// "cannot <doing> '<path>': <what the system says>", code kIo, with a note on what to do where there is something to do.
// `number` is an errno value.
[[nodiscard]] Error os_error(std::string_view doing, const std::filesystem::path& path, int number);

// The path that an open descriptor was opened with, for messages; "descriptor 7" where the system does not tell.
std::filesystem::path path_of(int fd);

}  // namespace sardonyx
