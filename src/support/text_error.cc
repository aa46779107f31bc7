#include "support/text_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace sardonyx {

Error text_error(std::string_view text, std::string_view file, size_t offset, std::string_view message, ErrorCode code) {
  offset = std::min(offset, text.size());
  size_t line_start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 = 0
  size_t line_end = std::min(text.find('\n', offset), text.size());
  size_t line = 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  size_t column = offset - line_start;
  // Show a window of a long line around the error.
  size_t from = column > 80 ? column - 60 : 0;
  std::string shown(text.substr(line_start + from, std::min<size_t>(line_end - line_start - from, 120)));
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  std::string number = std::to_string(line);
  return {code,
          fmt::format("{}:{}:{}: {}", file, line, column + 1, message),
          {fmt::format("{} | {}", number, shown),
           fmt::format("{} | {}^", std::string(number.size(), ' '), std::string(column - from, ' '))}};
}

}  // namespace sardonyx
