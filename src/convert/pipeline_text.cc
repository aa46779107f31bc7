#include "convert/pipeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "passes/catalog.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

bool is_known(std::string_view name) {
  const auto has = [&](const auto& list) { return std::ranges::any_of(list, [&](const auto& p) { return p.name == name; }); };
  return has(list_presets()) || has(list_passes());
}

}  // namespace

void add_pipeline(const std::string& text, PassRequest& request) {
  std::string entries = text;
  char separator = ',';
  std::error_code none;
  if (!is_known(text) && std::filesystem::is_regular_file(text, none)) {
    const auto file = MappedFile::open(text, MappedFile::Access::kRead);
    entries.assign(reinterpret_cast<const char*>(file->bytes().data()), file->size());
    separator = '\n';
  }
  for (size_t at = 0; at <= entries.size();) {
    const size_t end = std::min(entries.find(separator, at), entries.size());
    std::string_view entry = std::string_view(entries).substr(at, end - at);
    at = end + 1;
    entry = trimmed(entry.substr(0, entry.find('#')));
    if (entry.empty()) continue;
    if (const size_t equals = entry.find('='); equals != std::string_view::npos) {
      request.options.emplace_back(trimmed(entry.substr(0, equals)), trimmed(entry.substr(equals + 1)));
    } else {
      request.passes.emplace_back(entry);
    }
  }
}

std::string preset_text(std::string_view preset) {
  std::string text;
  const auto at = std::ranges::find(presets(), preset, &Preset::name);
  for (const Preset::Item& item : at == presets().end() ? std::vector<Preset::Item>() : at->items)
    text += fmt::format("  {}{}\n", item.pass, item.half ? "  (with precision f16)" : "");
  return text;
}

}  // namespace sardonyx
