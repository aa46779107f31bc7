#include "inspect/node_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "inspect/node_origin.h"
#include "rewrite/pass.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

// Whether one path ends with the other, at a folder.
bool same_file(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == '/');
}

bool comes_from(const NodeOrigin& origin, const LineQuery& query) {
  return std::ranges::any_of(origin.lines, [&](const SourceLine& s) {
    if (query.line != 0 && s.line != query.line) return false;
    if (query.place.empty()) return true;
    return s.function == query.place || (!s.file.empty() && same_file(s.file, query.place));
  });
}

}  // namespace

LineQuery parse_line_query(std::string_view text) {
  LineQuery query{.place = std::string(text)};
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), query.line);
    if (error != std::errc() || end != text.data() + text.size() || query.line <= 0) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a line: there is no number after ':'", text),
                  {"expected model.py:41, function:41, model.py or :41"});
    }
    query.place = text.substr(0, colon);
  }
  if (query.place.empty() && query.line == 0)
    throw Error(ErrorCode::kInvalidArgument, "a line is missing", {"expected model.py:41, function:41, model.py or :41"});
  return query;
}

std::vector<const Node*> all_nodes(const Model& m) {
  std::vector<const Node*> all;
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) {
        if (!(n.has(Trait::kConstant) && n.num_results() == 1 && n.result()->is_constant())) all.push_back(&n);
      }
    }
  }
  return all;
}

std::vector<const Node*> nodes_named(const Model& m, std::string_view name) {
  std::vector<const Node*> named, made_by;
  std::vector<std::string_view> names;
  for (const Node* n : all_nodes(m)) {
    if (!n->name().empty()) names.push_back(n->name().view());
    if (n->name().view() == name) named.push_back(n);
    for (const Value& v : n->results()) {
      if (!v.name().empty()) names.push_back(v.name().view());
      if (v.name().view() == name) made_by.push_back(n);
    }
  }
  if (!named.empty()) return named;
  if (!made_by.empty()) return made_by;
  std::vector<std::string> notes;
  const std::string_view meant = nearest(name, names);
  if (!meant.empty()) notes.push_back(fmt::format("did you mean '{}'?", meant));
  notes.emplace_back("help: `sardonyx view MODEL` shows all names");
  throw Error(ErrorCode::kInvalidArgument, fmt::format("no node and no result is named '{}'", name), std::move(notes));
}

std::vector<const Node*> nodes_at(const Model& m, const LineQuery& query) {
  std::vector<const Node*> found;
  for (const Node* n : all_nodes(m)) {
    if (comes_from(origin_of(*n), query)) found.push_back(n);
  }
  return found;
}

std::string label_of(const Node& n) {
  if (!n.name().empty()) return std::string(n.name().view());
  if (n.num_results() == 0) return std::string(n.op().name);
  const Value& v = *n.result();
  return v.name().empty() ? fmt::format("%{}", v.id()) : std::string(v.name().view());
}

}  // namespace sardonyx
