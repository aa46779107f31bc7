#include "inspect/node_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "rewrite/fired_rules.h"

namespace sardonyx {
namespace {

template <class T>
void add_new(std::vector<T>& to, T item) {
  if (std::ranges::find(to, item) == to.end()) to.push_back(std::move(item));
}

// The parts of a text between separators of "; ", as the ONNX writer joins them.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find("; "), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return parts;
}

// Splits "forward:41" at its last colon; the line is 0 if that is no number.
std::pair<std::string, int> split_line(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {std::string(text), 0};
  int line = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
  if (error != std::errc() || end != text.data() + text.size()) return {std::string(text), 0};
  return {std::string(text.substr(0, colon)), line};
}

bool is_file(std::string_view name) { return name.ends_with(".py") || name.ends_with(".ipynb") || name.starts_with('<'); }

// Frames of a Python traceback, the innermost first: `File "net.py", line 41, in forward`. Those inside
// PyTorch are left out where there are others.
std::vector<SourceLine> frames_of(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
  constexpr size_t kMost = 4;
  std::vector<std::string_view> frames;
  for (size_t at = 0; at < trace.size();) {
    const size_t end = std::min(trace.find('\n', at), trace.size());
    const size_t text = std::min(trace.find_first_not_of(' ', at), end);
    if (trace.substr(text).starts_with(kFile)) frames.push_back(trace.substr(text, end - text));
    at = end + 1;
  }
  std::vector<SourceLine> own, all;
  for (auto f = frames.rbegin(); f != frames.rend() && own.size() < kMost; ++f) {
    std::string_view frame = *f;
    frame.remove_prefix(kFile.size());
    const size_t quote = frame.find(kLine);
    if (quote == std::string_view::npos) continue;
    const std::string_view path = frame.substr(0, quote);
    frame.remove_prefix(quote + kLine.size());
    SourceLine s;
    const auto [rest, error] = std::from_chars(frame.data(), frame.data() + frame.size(), s.line);
    if (error != std::errc()) continue;
    frame.remove_prefix(static_cast<size_t>(rest - frame.data()));
    if (frame.starts_with(kIn)) s.function = frame.substr(kIn.size());
    s.file = path.substr(path.find_last_of("/\\") + 1);
    if (path.find("/torch/") == std::string_view::npos) {
      add_new(own, std::move(s));
    } else if (all.size() < kMost) {
      add_new(all, std::move(s));
    }
  }
  return own.empty() ? all : own;
}

void read_metadata(const Metadata& all, NodeOrigin& origin) {
  std::vector<SourceLine> calls;
  std::vector<std::pair<std::string, int>> files;
  for (const auto& [key, value] : all) {
    if (key == "namespace") {
      origin.scope = value;
    } else if (key == "pkg.sardonyx.callsite" || key == "pkg.jax2onnx.callsite") {
      for (const std::string_view part : parts_of(value)) {
        auto [name, line] = split_line(part);
        SourceLine s{.line = line};
        (is_file(name) ? s.file : s.function) = std::move(name);
        calls.push_back(std::move(s));
      }
    } else if (key == "pkg.sardonyx.source") {
      for (const std::string_view part : parts_of(value)) files.push_back(split_line(part));
    } else if (key == "pkg.sardonyx.plugin" || key == "pkg.jax2onnx.plugin") {
      for (const std::string_view part : parts_of(value)) add_new(origin.lowerings, std::string(part));
    } else if (key == "pkg.sardonyx.rules") {
      for (const std::string_view part : parts_of(value)) add_new(origin.rules, std::string(part));
    } else if (key == "pkg.torch.onnx.stack_trace") {
      for (SourceLine& s : frames_of(value)) add_new(origin.lines, std::move(s));
    } else {
      origin.others.emplace_back(key, value);
    }
  }
  // Both lists name the same lines in the same order, each without its duplicates.
  for (SourceLine& call : calls) {
    const auto file = std::ranges::find_if(files, [&](const auto& f) { return f.second == call.line; });
    if (file != files.end() && call.file.empty()) call.file = file->first;
    add_new(origin.lines, std::move(call));
  }
  for (auto& [file, line] : files) {
    const bool known = std::ranges::any_of(origin.lines, [&](const SourceLine& s) { return s.line == line && s.file == file; });
    if (!known) origin.lines.push_back({.file = std::move(file), .function = {}, .line = line});
  }
}

}  // namespace

std::string to_string(const SourceLine& s) {
  if (s.file.empty()) return fmt::format("{}:{}", s.function, s.line);
  return s.function.empty() ? fmt::format("{}:{}", s.file, s.line) : fmt::format("{}:{} ({})", s.file, s.line, s.function);
}

bool NodeOrigin::empty() const {
  return lines.empty() && scope.empty() && lowerings.empty() && rules.empty() && others.empty();
}

NodeOrigin origin_of(const Node& n) {
  NodeOrigin origin;
  const Provenance& p = n.model().provenance(n.provenance());
  for (const Source& s : p.sources) {
    if (!s.file.empty() || !s.function.empty()) add_new(origin.lines, SourceLine{s.file, s.function, s.line});
    if (origin.scope.empty()) origin.scope = s.scope;
    if (!s.lowering.empty()) add_new(origin.lowerings, s.lowering);
  }
  for (const std::string& rule : p.rules) add_new(origin.rules, std::string(without_mark(rule)));
  if (n.extra() != nullptr) read_metadata(n.extra()->metadata, origin);
  return origin;
}

}  // namespace sardonyx
