// Prints messages for people. Names come from files, so they are escaped and cannot control a terminal.
// Machine-readable output (--json) is printed without escapes.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "support/printable.h"

namespace sardonyx::cli {

// Where reports go: stdout, or stderr while a model goes to stdout.
inline std::FILE*& message_stream() {
  static std::FILE* stream = stdout;
  return stream;
}

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(message_stream(), "{}", printable(fmt::format(format, std::forward<Args>(args)...)));
}

// The same, on stderr.
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "{}", printable(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace sardonyx::cli
