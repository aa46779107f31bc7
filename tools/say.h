// What the command tells people. Names come from files: they are spelt so that they cannot steer a terminal. Output for programs
// (--json, --text) is not told but printed as it is.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "support/printable.h"

namespace sardonyx::tools {

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}", printable(fmt::format(format, std::forward<Args>(args)...)));
}

// The same, on stderr.
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "{}", printable(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace sardonyx::tools
