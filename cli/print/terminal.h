// Terminal output: colors and line wrapping.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace sardonyx::cli {

inline constexpr std::string_view kBold = "1", kRed = "1;31", kGreen = "32", kYellow = "33";

// `text` in that style if the stream is a terminal with colors; never with NO_COLOR in the environment.
std::string painted(std::FILE* stream, std::string_view style, std::string_view text);

// The columns of standard output: of COLUMNS, else of the terminal, else 80; between 40 and 110.
size_t columns();

// `text` in lines of at most `width` columns, broken at spaces; those after the first begin with `indent`
// spaces. The first one begins at column `indent`.
std::string wrapped(std::string_view text, size_t indent, size_t width = columns());

}  // namespace sardonyx::cli
