// The commands and their options as tables: --help, tab completion and the man page are made from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::tools {

struct OptionRow {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument, its name
  std::string about;
  std::string value;                 // placeholder of its value: "FILE"; empty for a flag
  std::vector<std::string> choices;  // the values it accepts; empty: any
  bool positional = false;
  bool required = false;
};

struct CommandRow {
  std::string name;  // as people type it: "coreml optimize"; empty for `sardonyx` itself
  std::string about;
  std::vector<OptionRow> options;
  std::vector<std::pair<std::string, std::string>> commands;  // subcommands: name and summary
};

// The exit codes, for --help and the man page.
inline constexpr std::string_view kExitCodes =
    "Exit codes: 0 done; 1 the input was refused, or a check failed; 2 the command line is wrong.";

// The page that --help prints.
std::string help_page(const CommandRow& command);
// For `shell`: bash, zsh or fish. Throws kInvalidArgument for others.
std::string completion_script(const std::vector<CommandRow>& commands, const std::string& shell);
// In troff, as `man -l` reads it.
std::string man_page(const std::vector<CommandRow>& commands, const std::string& version);

}  // namespace sardonyx::tools
