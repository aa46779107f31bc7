// Errors of the operating system as sardonyx::Error.
#pragma once

#include <filesystem>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx {

// "cannot <doing> '<path>': <system's message>", code kIo, with a note on what to do if there is a remedy.
// `number` is an errno value.
[[nodiscard]] Error os_error(std::string_view doing, const std::filesystem::path& path, int number);

// The path of an open descriptor, for messages; "descriptor 7" if the system does not know it.
std::filesystem::path path_of(int fd);

}  // namespace sardonyx
