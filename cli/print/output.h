// Machine-readable output (--json), and standard input and output in place of files (-).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx::cli {

using nlohmann::ordered_json;

// The "schema" of every --json object. It increases when a field changes its meaning or is removed; adding
// fields keeps it. docs/reference/command_line.md describes them.
inline constexpr int kSchema = 1;

// {"schema": 1, "command": ..., "input": ..., "ok": ...}; without "input" where `input` is empty.
ordered_json json_head(std::string_view command, const std::string& input, bool ok);
// {"code": ..., "message": ..., "notes": [...]}
ordered_json json_of(const std::exception& e);
// --json always prints one array of objects.
void print_json(const ordered_json& objects);
inline void print_one(ordered_json object) { print_json(ordered_json::array({std::move(object)})); }

// Writes what is buffered for standard output. Throws kIo if any of it, now or before, could not be written.
void finish_output();

// The path to open for an input; "-" is standard input.
std::string opened(const std::string& input);
bool is_standard_output(const std::string& output);

// A file that stands for standard output until it is complete.
class StandardOutput {
 public:
  explicit StandardOutput(std::string_view suffix);
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void send() const;  // throws kIo

 private:
  std::filesystem::path folder_, path_;
};

}  // namespace sardonyx::cli
