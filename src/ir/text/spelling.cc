#include "ir/text/spelling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ir/graph/call.h"
#include "sardonyx/error.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

bool is_of_the_standard(std::string_view domain) { return domain.empty() || domain.starts_with("ai.onnx"); }

int opset_of(const Model& m, std::string_view domain) {
  for (const OpsetImport& i : m.opset_imports) {
    if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) return static_cast<int>(i.version);
  }
  return 0;
}

Misspelling unknown_op(const Node& n) {
  const Op& op = n.op();
  const Dialect& tables = dialect(DialectId::kOnnx);
  const int latest = tables.latest_version(op.domain), opset = opset_of(n.model(), op.domain);
  std::string version = opset == 0 ? "" : fmt::format(" in opset {}{}{}", opset, op.domain.empty() ? "" : " of ", op.domain);
  Misspelling found{fmt::format("there is no operator {}{}", op.name, version), {}};
  if (const Op* newest = tables.find(op.domain, op.name, latest)) {
    int since = newest->since_version;
    for (const Op& other : tables.ops()) {
      if (other.domain == newest->domain && other.name == newest->name) since = std::min(since, other.since_version);
    }
    found.notes.push_back(fmt::format("help: {} exists since opset {}: export with that one or a later one", op.name, since));
    return found;
  }
  std::set<std::string_view> names;
  for (const Op& other : tables.ops()) {
    if (other.domain == op.domain && !other.deprecated) names.insert(other.name);
  }
  const std::string_view meant = nearest(op.name, std::vector(names.begin(), names.end()));
  if (!meant.empty()) {
    const size_t distance = edit_distance(op.name, meant);
    std::erase_if(names, [&](std::string_view other) { return edit_distance(op.name, other) != distance; });
    found.notes.push_back(fmt::format("help: did you mean '{}'?", fmt::join(names, "' or '")));
  }
  if (op.domain.empty()) found.notes.emplace_back("help: an operator of a runtime's own has a domain: pass domain=");
  return found;
}

}  // namespace

std::optional<UnknownAttr> unknown_attr(const Op& op, std::string_view name) {
  if (!op.known || op.dialect != DialectId::kOnnx) return std::nullopt;
  if (std::ranges::any_of(op.attrs, [&](const AttrSpec& s) { return s.name == name; })) return std::nullopt;
  std::vector<std::string_view> known;
  for (const AttrSpec& s : op.attrs) known.push_back(s.name);
  return UnknownAttr{fmt::format("{}-{} has no attribute '{}'", op.name, op.since_version, name), nearest(name, known)};
}

std::optional<Misspelling> misspelling(const Node& n) {
  const Op& op = n.op();
  if (op.dialect != DialectId::kOnnx || !is_of_the_standard(op.domain)) return std::nullopt;
  if (!op.known) {
    if (called_function(n) != nullptr) return std::nullopt;
    return unknown_op(n);
  }
  if (op.deprecated) return Misspelling{fmt::format("{} is deprecated since opset {}", op.name, op.since_version), {}};
  for (const NamedAttr& a : n.attrs().items()) {
    const auto unknown = unknown_attr(op, a.name);
    if (!unknown) continue;
    Misspelling found{unknown->text, {}};
    if (!unknown->meant.empty()) found.notes.push_back(fmt::format("help: did you mean '{}'?", unknown->meant));
    return found;
  }
  return std::nullopt;
}

std::optional<Misspelling> misspelling(const Graph& g, const Node* after) {
  std::vector<const Node*> starts = {after != nullptr ? after->next() : g.first()};
  while (!starts.empty()) {
    const Node* n = starts.back();
    starts.pop_back();
    for (; n != nullptr; n = n->next()) {
      for (const Body& b : n->bodies()) starts.push_back(b.graph->first());
      auto found = misspelling(*n);
      if (!found) continue;
      found->notes.insert(found->notes.begin(), fmt::format("at {}", print(*n)));
      return found;
    }
  }
  return std::nullopt;
}

void check_spelling(const Model& m) {
  for (const auto& f : m.functions()) {
    if (auto found = misspelling(f->graph())) {
      throw Error(ErrorCode::kInvalidModel, std::move(found->text), std::move(found->notes));
    }
  }
}

}  // namespace sardonyx
