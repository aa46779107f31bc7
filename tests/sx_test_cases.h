// The cases of .sx files: reading them, and what turns the input of one into its result.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct Case {
  std::string claim;
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
  std::vector<std::string> options;  // "option=value"
  std::vector<Case> cases;
};

// What turns the input into the result; throws what the case expects where it expects an error.
using Transform = std::function<std::unique_ptr<Model>(const Model& input)>;
Transform transform_for(const std::string& kind, const std::string& name, const std::vector<std::string>& options);

CaseFile read_cases(const std::filesystem::path& path);
// The lines [begin, end) at their place in the file, so that errors tell its lines.
std::string text_of(const CaseFile& f, size_t begin, size_t end);

// Cases whose graphs were evaluated, and those that could not be.
struct Values {
  size_t compared = 0, skipped = 0;
  std::vector<std::string> reasons;
};

// Nothing when the case holds; else what went wrong. *bless: the graph to write in place of the expected one.
std::optional<std::string> run_case(const CaseFile& f, const Case& c, const Transform& transform, std::string* bless,
                                    Values& values);
bool is_blank(std::string_view line);

}  // namespace sardonyx
