// Finds and reads the .sx files with cases.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx {

struct Case {
  std::string claim;
  std::vector<std::string> options;       // "option=value": its own, else those of the file
  size_t line = 0;                        // of its "case", from 1
  size_t input_begin = 0, input_end = 0;  // lines, from 0, end excluded
  size_t arrow = 0;                       // the line of "=>"
  size_t expected_begin = 0, expected_end = 0;
  std::string verdict;  // the text after "=>"
};

struct CaseFile {
  std::filesystem::path path;
  std::vector<std::string> lines;
  std::string kind, name;
  std::vector<Case> cases;
};

// Returns the files, and the .sx files below those paths that are folders, sorted.
std::vector<std::filesystem::path> case_files(const std::vector<std::filesystem::path>& paths);

CaseFile read_cases(const std::filesystem::path& path);
// The lines [begin, end), preceded by empty lines so that errors show the file's line numbers.
std::string text_of(const CaseFile& f, size_t begin, size_t end);

// The text in double quotes; what follows it goes to *rest. Throws, with the position, if there is none, or
// if something follows and `rest` is null.
std::string unquoted(std::string_view s, const std::filesystem::path& path, size_t line, std::string* rest = nullptr);
bool is_blank(std::string_view line);

}  // namespace sardonyx
