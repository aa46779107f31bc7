#include "sx_test_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.back() == ' ' || s.back() == '\r' || s.back() == '\t')) s.remove_suffix(1);
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  return s;
}

}  // namespace

bool is_blank(std::string_view line) { return trimmed(line).empty() || trimmed(line).starts_with("//"); }

std::vector<std::filesystem::path> case_files(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().extension() == ".sx") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string unquoted(std::string_view s, const std::filesystem::path& path, size_t line, std::string* rest) {
  s = trimmed(s);
  std::string out;
  size_t i = 1;
  for (; i < s.size() && s[i] != '"'; ++i) {
    if (s[i] == '\\' && i + 1 < s.size()) ++i;
    out += s[i];
  }
  if (!s.starts_with('"') || i >= s.size() || (rest == nullptr && i + 1 < s.size()))
    throw Error(ErrorCode::kParse, fmt::format("{}:{}: expected a text in double quotes", path.string(), line));
  if (rest != nullptr) *rest = trimmed(s.substr(i + 1));
  return out;
}

CaseFile read_cases(const std::filesystem::path& path) {
  CaseFile f;
  f.path = path;
  std::ifstream in(path);
  if (!in) throw Error(ErrorCode::kIo, fmt::format("cannot read {}", path.string()));
  for (std::string line; std::getline(in, line);) f.lines.push_back(line);
  auto fail = [&](size_t i, std::string_view what) {
    throw Error(ErrorCode::kParse, fmt::format("{}:{}: {}", path.string(), i + 1, what));
  };
  size_t i = 0;
  while (i < f.lines.size() && is_blank(f.lines[i])) ++i;
  if (i == f.lines.size()) fail(0, "expected a line like: lower cumsum");
  std::istringstream head{f.lines[i]};
  if (!(head >> f.kind >> f.name)) fail(i, "expected a line like: lower cumsum");
  const auto read_options = [&](std::istream& from) {
    std::vector<std::string> options;
    for (std::string option; from >> option;) {
      if (option.find('=') == std::string::npos) fail(i, fmt::format("expected an option like budget=1000, not: {}", option));
      for (size_t tab; (tab = option.find("\\t")) != std::string::npos;) option.replace(tab, 2, "\t");
      options.push_back(option);
    }
    return options;
  };
  const std::vector<std::string> options = read_options(head);
  ++i;
  enum { kBetween, kInput, kExpected } at = kBetween;
  auto finish = [&](size_t end) {
    if (at == kInput) fail(end - 1, "this case has no '=>'");
    if (at == kExpected) {
      while (end > f.cases.back().expected_begin && is_blank(f.lines[end - 1])) --end;
      f.cases.back().expected_end = end;
    }
  };
  for (; i < f.lines.size(); ++i) {
    std::string_view line = f.lines[i];
    if (line.starts_with("case ")) {
      finish(i);
      std::string rest;
      Case& c = f.cases.emplace_back();
      c.claim = unquoted(line.substr(5), path, i + 1, &rest);
      std::istringstream own(rest);
      c.options = rest.empty() ? options : read_options(own);
      c.line = c.input_begin = i + 1;
      at = kInput;
    } else if (line.starts_with("=>")) {
      if (at != kInput) fail(i, "'=>' without a case before it");
      Case& c = f.cases.back();
      c.input_end = i;
      c.arrow = i;
      c.verdict = trimmed(line.substr(2));
      c.expected_begin = c.expected_end = i + 1;
      at = kExpected;
    } else if (at == kBetween && !is_blank(line)) {
      fail(i, "expected: case \"the claim\"");
    }
  }
  finish(f.lines.size());
  if (f.cases.empty()) fail(f.lines.size(), "this file has no case");
  for (size_t a = 0; a < f.cases.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (f.cases[a].claim == f.cases[b].claim) fail(f.cases[a].line - 1, "this claim stands in the file already");
  return f;
}

std::string text_of(const CaseFile& f, size_t begin, size_t end) {
  std::string text(begin, '\n');
  for (size_t i = begin; i < end; ++i) text += f.lines[i] + '\n';
  return text;
}

}  // namespace sardonyx
