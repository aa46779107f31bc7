#include "cli/print/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "support/system/system.h"

namespace sardonyx::cli {

std::string painted(std::FILE* stream, std::string_view style, std::string_view text) {
  const char* no = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool wanted = (no == nullptr || *no == '\0') && (terminal == nullptr || std::string_view(terminal) != "dumb");
  if (!wanted || !sys::is_terminal(stream)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", style, text);
}

size_t columns() {
  constexpr size_t kLeast = 40, kMost = 110;
  size_t found = 80;
  const char* said = std::getenv("COLUMNS");
  if (said != nullptr && std::atoi(said) > 0) {
    found = static_cast<size_t>(std::atoi(said));
  } else if (const auto width = sys::columns(stdout)) {
    found = *width;
  }
  return std::clamp(found, kLeast, kMost);
}

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > width) {
      out += '\n' + std::string(column = indent, ' ');
    } else if (column > indent) {
      out += ' ', ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace sardonyx::cli
