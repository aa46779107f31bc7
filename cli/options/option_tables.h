// --help, tab completion and the manual page, made from the table of options.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx::cli {

// The page that --help prints; of sardonyx itself for "".
std::string help_page(std::string_view command);
// For `shell`: bash, zsh or fish. Throws kInvalidArgument for others.
std::string completion_script(const std::string& shell);
// The options as Markdown, for docs/reference/command_line.md.
std::string options_table();
// In troff, as `man -l` reads it.
std::string man_page(const std::string& version);

}  // namespace sardonyx::cli
