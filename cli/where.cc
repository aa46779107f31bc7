// sardonyx info --node and --line: the source line of a node, and the nodes of a source line.
#include <fmt/format.h>

#include <algorithm>

#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/read_source.h"
#include "inspect/node_origin.h"
#include "inspect/node_search.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {
namespace {

std::string types_of(const Node& n) {
  std::string text;
  for (const Value& v : n.results())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", n.model().types().to_string(v.type()));
  return text;
}

ordered_json json_of(const Node& n) {
  const NodeOrigin origin = origin_of(n);
  ordered_json j{{"name", n.name().view()}, {"op", n.op().name}, {"results", ordered_json::array()}};
  for (const Value& v : n.results())
    j["results"].push_back({{"name", v.name().view()}, {"type", n.model().types().to_string(v.type())}});
  j["lines"] = ordered_json::array();
  for (const SourceLine& s : origin.lines) j["lines"].push_back({{"file", s.file}, {"line", s.line}, {"function", s.function}});
  j["module"] = origin.scope;
  j["lowerings"] = origin.lowerings;
  j["rules"] = origin.rules;
  return j;
}

void say_node(const Node& n) {
  const NodeOrigin origin = origin_of(n);
  say("{}: {}  {}\n", label_of(n), n.op().name, types_of(n));
  for (const SourceLine& s : origin.lines) say("  line      {}\n", to_string(s));
  if (!origin.scope.empty()) say("  module    {}\n", origin.scope);
  for (const std::string& l : origin.lowerings) say("  lowering  {}\n", l);
  for (const std::string& r : origin.rules) say("  rule      {}\n", r);
  for (const auto& [key, value] : origin.others) say("  {}: {}\n", key, value);
  if (origin.empty()) say("  the file does not say where it comes from\n");
}

// "model.py:41 (forward), model.py:40 (forward)", or nothing.
std::string lines_of(const NodeOrigin& origin) {
  std::string text;
  for (const SourceLine& line : origin.lines) text += (text.empty() ? "" : ", ") + to_string(line);
  return text;
}

void say_list(const std::vector<const Node*>& nodes) {
  size_t wide = 4, op = 2;
  for (const Node* n : nodes) {
    wide = std::min<size_t>(std::max(wide, label_of(*n).size()), 60);
    op = std::max(op, n->op().name.size());
  }
  for (const Node* n : nodes) {
    const NodeOrigin origin = origin_of(*n);
    say("{:<{}}  {:<{}}  {}  {}{}{}\n", label_of(*n), wide, n->op().name, op, types_of(*n), lines_of(origin),
        origin.scope.empty() ? "" : "  ", origin.scope);
  }
}

}  // namespace

int where(const Given& given) {
  const std::string input = given.text("model"), line = given.text("line"), node = given.text("node");
  if (given.has("node") && given.has("line")) throw Error(ErrorCode::kInvalidArgument, "both --node and --line are given");
  const LineQuery query = given.has("line") ? parse_line_query(line) : LineQuery();
  const auto model = read_source(opened(input), read_options(given));
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);
  const std::vector<const Node*> found = !given.has("line") ? nodes_named(*model, node) : nodes_at(*model, query);
  if (given.has("json")) {
    ordered_json j = json_head("info", input, !found.empty());
    j["nodes"] = ordered_json::array();
    for (const Node* n : found) j["nodes"].push_back(json_of(*n));
    print_one(std::move(j));
    return found.empty() ? 1 : 0;
  }
  if (!given.has("line")) {
    for (const Node* n : found) say_node(*n);
    return 0;
  }
  if (found.empty()) {
    const auto all = all_nodes(*model);
    const bool knows = std::ranges::any_of(all, [](const Node* n) { return !origin_of(*n).lines.empty(); });
    warn("no node comes from {}{}\n", line, knows ? "" : ": the file names no source lines");
    return 1;
  }
  say_list(found);
  return 0;
}

}  // namespace sardonyx::cli
