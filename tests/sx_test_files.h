// The .sx files with cases: finding and reading them.
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
  std::string verdict;  // what stands behind "=>"
};

struct CaseFile {
  std::filesystem::path path;
  std::vector<std::string> lines;
  std::string kind, name;
  std::vector<Case> cases;
};

// The files, and the .sx files in those of the paths that are folders; sorted.
std::vector<std::filesystem::path> case_files(const std::vector<std::filesystem::path>& paths);

CaseFile read_cases(const std::filesystem::path& path);
// The lines [begin, end) at their place in the file, so that errors tell its lines.
std::string text_of(const CaseFile& f, size_t begin, size_t end);

// The text that stands in double quotes, and in *rest what follows it; throws, with the place, where there is
// none, or where something follows and there is no `rest`.
std::string unquoted(std::string_view s, const std::filesystem::path& path, size_t line, std::string* rest = nullptr);
bool is_blank(std::string_view line);

}  // namespace sardonyx
