// Command lines in the syntax of other tools: accepted if unambiguous, else answered with the command to type.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "option_tables.h"

namespace sardonyx::tools {

// Names of other tools' options that are accepted but not listed on any page.
inline constexpr std::string_view kTakenSilently[] = {"overwrite-input-shape", "input-shapes"};

// The command of that name, as people type it ("coreml optimize"; empty: `sardonyx` itself). Making the rows of all commands would
// take longer than starting does.
using FindCommand = std::function<std::optional<CommandRow>(std::string_view name)>;

// The commands that run in Python.
inline constexpr const char* kPythonCommands[] = {"export", "explain", "profile", "lint-plugin"};

struct Habit {
  std::vector<std::string> arguments;  // in the form that CLI11 parses
  bool in_python = false;              // once CLI11 has accepted them, the command runs in Python
};

// The command line as it is meant: `help COMMAND`, `in.onnx out.onnx`, `optimize in.onnx out.onnx`. Throws kInvalidArgument for commands that
// do not exist, and for what has two meanings.
Habit understood(std::vector<std::string> arguments, const FindCommand& find);

// The message for a command line that CLI11 rejects with `what`.
std::string usage_message(std::string what);
std::vector<std::string> usage_notes(const std::vector<std::string>& arguments, const FindCommand& find, std::string_view what);

// Prints an error that no command has printed, also as JSON under --json. Returns the exit code.
int report_error(const std::vector<std::string>& arguments, const std::exception& e);

}  // namespace sardonyx::tools
