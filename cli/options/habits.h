// Command lines in the syntax of earlier versions and of other tools: accepted if unambiguous, else answered
// with the command to type.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/options.h"

namespace sardonyx::cli {

struct SpelledOption {
  const Option* option;
  std::string name;                  // as it was typed, without the value
  std::optional<std::string> value;  // in the same argument: "--opset=20", "-ofile"
};

// The option that an argument names. Throws kInvalidArgument if the command has none of that name.
SpelledOption spelled_option(std::string_view command, std::string_view argument);

// The command line as it is meant, with its command in front: `help COMMAND`, `in.onnx out.onnx`, `optimize
// in.onnx out.onnx`. Throws kInvalidArgument for commands that do not exist, and for what has two meanings.
std::vector<std::string> understood(std::vector<std::string> arguments);

// Whether an argument names a function of a Python module rather than a file.
bool is_function(const std::string& text);

// Prints an error that no command has printed, also as JSON under --json. Returns the exit code.
int report_error(const std::vector<std::string>& arguments, const std::exception& e);

}  // namespace sardonyx::cli
