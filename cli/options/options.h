// The commands and their options: one table, from which command lines are parsed and --help, tab completion,
// the manual page and docs/reference/command_line.md are made.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/error.h"

namespace sardonyx::cli {

// What a command line is about, which decides the options that apply to it.
enum class Kind : char {
  kOnnx = 'o',              // an ONNX model, for ONNX
  kCoreml = 'm',            // a Core ML program, for Core ML
  kOnnxToCoreml = 'c',      // an ONNX model, for Core ML
  kProgram = 'l',           // a saved program of JAX, for ONNX
  kFunction = 'f',          // a function, for ONNX
  kFunctionToCoreml = 'F',  // a function, for Core ML
  kHalf = 'h',              // the report on half precision
};

struct Option {
  // The commands that have it, each with the kinds it applies to: "convert/fF optimize/o". Without a slash:
  // all.
  std::string_view commands;
  std::string_view names;  // "-o,--output"; of a positional argument, its name
  // "": a flag. "N", "SIZE", "TOLERANCE" and "OPSET" are numbers; "a|b": one of these. "[...]": the value may
  // be left out. "...": the option repeats; ",...": and its values are lists. Of a positional argument: "?"
  // if it may be left out, "..." for several; "a|b" are proposed by tab completion.
  std::string_view value;
  std::string_view about;
  std::string_view preset = {};  // what holds without it, on the page
  bool required = false;

  bool is_positional() const { return !names.starts_with('-'); }
  std::string_view name() const;                    // "output"
  std::vector<std::string_view> spellings() const;  // "-o", "--output"
  bool takes_value() const { return !value.empty(); }
  bool may_lack_value() const { return value.starts_with('['); }
  bool repeats() const { return value.ends_with("..."); }
  std::vector<std::string_view> choices() const;
  bool applies_to(std::string_view command, Kind kind) const;
  // "functions", "ONNX", "Core ML" or "models", if it is for these only. Of `compare`, which takes two of any
  // format: "functions" or "".
  std::string_view formats(std::string_view command) const;
};

struct Command {
  std::string_view name;
  std::string_view about;
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);
std::span<const Option> all_options();
std::vector<const Option*> options_of(std::string_view command);  // of sardonyx itself: ""
// By "--output" or "-o"; null if the command has none of that name.
const Option* find_option(std::string_view command, std::string_view name);

// The values that a command line gives, by the names of options without dashes.
class Given {
 public:
  Given() = default;
  // Parses what follows the command. Throws kInvalidArgument.
  Given(std::string_view command, std::vector<std::string> arguments);

  bool has(std::string_view name) const { return values_.contains(name); }
  std::string text(std::string_view name, std::string_view otherwise = {}) const;  // the last one
  const std::vector<std::string>& list(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  uint64_t count(std::string_view name, uint64_t otherwise) const;
  const std::string& command() const { return command_; }
  const auto& values() const { return values_; }

  // Throws kInvalidArgument for an option that does not apply to `kind`. `subject` is the model, for the
  // message.
  void require_fit(Kind kind, const std::string& subject) const;

 private:
  std::string command_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// Throws kInvalidArgument.
[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {});

// The parts between separators: one that is empty for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

// Parses sizes such as "10M".
int64_t bytes_of(const std::string& text);

}  // namespace sardonyx::cli
