// sardonyx where: the source line of a node, and the nodes of a source line.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "driver/node_origin.h"
#include "driver/node_search.h"
#include "output.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "say.h"

namespace sardonyx::tools {
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

// "model.py:41" or "model.py"
bool looks_like_line(std::string_view text) {
  const size_t colon = text.rfind(':');
  const bool has_number = colon != std::string_view::npos && colon + 1 < text.size() &&
                          text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return has_number || text.ends_with(".py") || text.ends_with(".ipynb");
}

bool has_name(const Model& m, std::string_view name) {
  return std::ranges::any_of(all_nodes(m), [&](const Node* n) {
    return n->name().view() == name ||
           std::ranges::any_of(n->results(), [&](const Value& v) { return v.name().view() == name; });
  });
}

}  // namespace

int where(const FileArgs& files, const WhereArgs& args) {
  if (args.node.empty() == args.line.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                args.node.empty() ? "neither a node nor --line is given" : "a node and --line are given",
                {"help: sardonyx where MODEL NODE", "help: sardonyx where MODEL model.py:41"});
  }
  const auto model = read_model(opened(files.input), {.map = !files.no_mmap});
  const bool is_line = args.line.empty() && looks_like_line(args.node) && !has_name(*model, args.node);
  const std::string line = is_line ? args.node : args.line;
  const LineQuery query = line.empty() ? LineQuery() : parse_line_query(line);
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);
  const std::vector<const Node*> found = line.empty() ? nodes_named(*model, args.node) : nodes_at(*model, query);
  if (args.json) {
    ordered_json j = json_head("where", files.input, !found.empty());
    j["nodes"] = ordered_json::array();
    for (const Node* n : found) j["nodes"].push_back(json_of(*n));
    print_one(std::move(j));
    return found.empty() ? 1 : 0;
  }
  if (line.empty()) {
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

}  // namespace sardonyx::tools
