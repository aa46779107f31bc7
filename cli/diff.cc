// sardonyx diff: compares two models. Exit code 1 when they differ.
#include "convert/read_source.h"
#include "inspect/model_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/print/output.h"
#include "cli/print/page.h"
#include "cli/print/say.h"
#include "cli/print/terminal.h"
#include "commands.h"
#include "inspect/match_models.h"
#include "inspect/node_search.h"
#include "sardonyx/io.h"
#include "view/model_page.h"

namespace sardonyx::cli {
namespace {

using Change = ModelDiff::Change;

// Prints up to `most` differing lines with their context.
void show(const ModelDiff& found, size_t most) {
  constexpr size_t kAround = 2;
  const auto& lines = found.lines;
  std::vector<char> shown(lines.size(), 0);
  size_t differ = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].first == ' ' || ++differ > most) continue;
    for (size_t k = i - std::min(i, kAround); k <= std::min(i + kAround, lines.size() - 1); ++k) shown[k] = 1;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (shown[i] == 0) continue;
    if (i > 0 && shown[i - 1] == 0) say("  ...\n");
    const auto& [side, text] = lines[i];
    const std::string line = printable(fmt::format("{} {}", side, text));
    fmt::print("{}\n", side == ' ' ? line : painted(stdout, side == '-' ? kRed : kGreen, line));
  }
  if (differ > most) say("  ... {} more lines differ (--most shows more)\n", differ - most);
}

std::string kind_and_label(const Node& n) { return fmt::format("{} {}", n.op().name, label_of(n)); }

// Prints the nodes that differ, at most so many.
void show_nodes(const ModelMatch& m, size_t most) {
  say("nodes: {} same, {} moved, {} changed, {} removed, {} added\n", m.same, m.moved.size(), m.changed.size(),
      m.removed.size(), m.added.size());
  size_t shown = 0;
  const auto line = [&](std::string_view color, const std::string& text) {
    if (++shown <= most) fmt::print("{}\n", painted(stdout, color, printable(text)));
  };
  for (const Node* n : m.removed) line(kRed, fmt::format("- {}", kind_and_label(*n)));
  for (const Node* n : m.added) line(kGreen, fmt::format("+ {}", kind_and_label(*n)));
  for (const NodeChange& c : m.changed) {
    const std::string before = kind_and_label(*c.before), after = kind_and_label(*c.after);
    line(kYellow,
         fmt::format("~ {}: {}", before == after ? after : fmt::format("{} -> {}", before, after), fmt::join(c.what, "; ")));
  }
  if (shown > most) say("  ... {} more nodes differ (--most shows more)\n", shown - most);
}

void show_renamed(const std::vector<std::pair<std::string, std::string>>& renamed) {
  constexpr size_t kMost = 3;
  if (renamed.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(renamed.size(), kMost); ++i)
    names += fmt::format("{}{} -> {}", i == 0 ? "" : ", ", renamed[i].first, renamed[i].second);
  say("renamed: {} constant{}: {}{}\n", renamed.size(), renamed.size() == 1 ? "" : "s", names,
      renamed.size() > kMost ? ", ..." : "");
}

ordered_json json_of(const ModelMatch& m) {
  const auto node = [](const Node& n) { return ordered_json{{"name", label_of(n)}, {"op", n.op().name}}; };
  const auto pair = [&](const Node& x, const Node& y) { return ordered_json{{"before", node(x)}, {"after", node(y)}}; };
  ordered_json j{{"same", m.same}};
  for (const char* key : {"moved", "changed", "removed", "added"}) j[key] = ordered_json::array();
  for (const auto& [x, y] : m.moved) j["moved"].push_back(pair(*x, *y));
  for (const NodeChange& c : m.changed) {
    j["changed"].push_back(pair(*c.before, *c.after));
    j["changed"].back()["what"] = c.what;
  }
  for (const Node* n : m.removed) j["removed"].push_back(node(*n));
  for (const Node* n : m.added) j["added"].push_back(node(*n));
  return j;
}

ordered_json json_of(const Given& given, const ModelDiff& found) {
  const auto list = [](const std::vector<Change>& all) {
    ordered_json out = ordered_json::array();
    for (const Change& c : all) out.push_back({{"what", c.what}, {"before", c.before}, {"after", c.after}});
    return out;
  };
  ordered_json text = ordered_json::array();
  for (const auto& [side, line] : found.lines) {
    if (side != ' ') text.push_back(fmt::format("{} {}", side, line));
  }
  ordered_json j = json_head("diff", given.text("before"), found.same);
  j["after"] = given.text("after");
  j["same"] = found.same;
  j["interface"] = list(found.interface);
  j["ops"] = list(found.ops);
  j["tensor_bytes"] = {found.bytes_before, found.bytes_after};
  j["lines"] = text;
  j["nodes"] = json_of(found.nodes);
  j["renamed_constants"] = found.renamed;
  if (given.has("output")) j["output"] = given.text("output");
  return j;
}

}  // namespace

int diff(const Given& given) {
  const std::string before = given.text("before"), after = given.text("after"), output = given.text("output");
  const size_t most = given.count("most", 60);
  if (!output.empty()) require_page_name(output);
  const auto a = read_source(opened(before)), b = read_source(opened(after));
  const ModelDiff found = diff_models(*a, *b);
  if (!output.empty()) write_page(output, view::diff_page(*a, *b, before, after));
  if (given.has("json")) {
    print_one(json_of(given, found));
    return found.same ? 0 : 1;
  }
  if (found.same) {
    say("the models are the same\n");
    return 0;
  }
  const auto or_none = [](const std::string& s, std::string_view none) { return s.empty() ? std::string(none) : s; };
  for (const Change& c : found.interface) say("{}: {} -> {}\n", c.what, or_none(c.before, "none"), or_none(c.after, "none"));
  if (!found.ops.empty()) {
    size_t width = 8;
    for (const Change& c : found.ops) width = std::max(width, c.what.size());
    say("{:<{}}  {:>8}  {:>8}\n", "operator", width, "before", "after");
    for (const Change& c : found.ops)
      say("{:<{}}  {:>8}  {:>8}\n", c.what, width, or_none(c.before, "0"), or_none(c.after, "0"));
  }
  show_renamed(found.renamed);
  if (found.bytes_before != found.bytes_after)
    say("tensors: {} -> {}\n", human_bytes(found.bytes_before), human_bytes(found.bytes_after));
  show_nodes(found.nodes, most);
  if (found.differing > 0) {
    say("\n--- {}\n+++ {}\n", before, after);
    show(found, most);
  }
  return 1;
}

}  // namespace sardonyx::cli
