// sardonyx passes: lists passes and presets.
#include <fmt/format.h>

#include <algorithm>

#include "cli/print/output.h"
#include "cli/print/say.h"
#include "cli/print/terminal.h"
#include "commands.h"
#include "convert/pipeline_text.h"
#include "sardonyx/passes.h"

namespace sardonyx::cli {
namespace {

ordered_json json_of(const std::vector<PassInfo>& all, const std::vector<PresetInfo>& presets) {
  ordered_json j = json_head("passes", "", true);
  j["passes"] = j["presets"] = ordered_json::array();
  for (const PassInfo& p : all) {
    ordered_json options = ordered_json::object();
    for (const auto& [option, meaning] : p.options) options[std::string(option)] = meaning;
    j["passes"].push_back({{"name", p.name},
                           {"dialect", p.dialect},
                           {"about", p.about},
                           {"numerics", to_string(p.numerics)},
                           {"options", options},
                           {"rules", p.rules}});
  }
  for (const PresetInfo& p : presets) j["presets"].push_back({{"name", p.name}, {"about", p.about}, {"passes", p.passes}});
  return j;
}

// Two columns where both are readable; else each text below its name.
void list(std::string_view title, const auto& rows, size_t width) {
  if (rows.empty()) return;
  fmt::print(message_stream(), "{}\n", painted(message_stream(), kBold, title));
  const bool beside = width + 4 + 30 <= columns();
  for (const auto& row : rows) {
    if (beside) {
      say("  {:<{}}  {}\n", row.name, width, wrapped(row.about, width + 4));
    } else {
      say("  {}\n      {}\n", row.name, wrapped(row.about, 6));
    }
  }
}

void show(const PassInfo& p) {
  constexpr size_t kIndent = 12;
  say("{}::{}: {}\n", p.dialect, p.name, wrapped(p.about, p.dialect.size() + p.name.size() + 4));
  say("  numerics  {}\n", to_string(p.numerics));
  for (const auto& [option, meaning] : p.options)
    say("  option    {}\n", wrapped(fmt::format("{}: {}", option, meaning), kIndent));
  for (const std::string& rule : p.rules) say("  rule      {}\n", wrapped(rule, kIndent));
}

}  // namespace

int passes(const Given& given) {
  const std::string name = given.text("name");
  std::vector<PassInfo> all = list_passes();
  std::vector<PresetInfo> presets = list_presets();
  const size_t prefix = name.rfind("::");
  const std::string bare = prefix == std::string::npos ? name : name.substr(prefix + 2);
  const bool is_pass = std::ranges::any_of(all, [&](const PassInfo& p) { return p.name == bare; });
  const bool is_preset = std::ranges::any_of(presets, [&](const PresetInfo& p) { return p.name == name; });
  if (is_pass || is_preset) {
    std::erase_if(all, [&](const PassInfo& p) { return is_preset || p.name != bare; });
    std::erase_if(presets, [&](const PresetInfo& p) { return p.name != name; });
  } else if (!name.empty()) {
    std::erase_if(all, [&](const PassInfo& p) { return p.name.find(bare) == std::string_view::npos; });
    std::erase_if(presets, [&](const PresetInfo& p) { return p.name.find(bare) == std::string_view::npos; });
    if (all.empty() && presets.empty()) check_request({.passes = {name}}, DialectId::kOnnx);  // says what is near
  }
  if (given.has("json")) {
    print_one(json_of(all, presets));
  } else if (is_preset) {
    say("{}: {}\n", presets[0].name, wrapped(presets[0].about, presets[0].name.size() + 2));
    say("{}", preset_text(name));
  } else if (is_pass) {
    show(all[0]);
  } else {
    size_t width = 0;
    for (const PassInfo& p : all) width = std::max(width, p.name.size());
    for (const PresetInfo& p : presets) width = std::max(width, p.name.size());
    list("presets", presets, width);
    list("passes", all, width);
  }
  return 0;
}

}  // namespace sardonyx::cli
