#include "convert/guards/kept_origins.h"

#include <algorithm>
#include <utility>

#include "inspect/node_origin.h"
#include "rewrite/pass.h"

namespace sardonyx {
namespace {

constexpr size_t kMostSources = 4;  // of a Provenance

bool has_metadata(const Node& n) { return n.extra() != nullptr && !n.extra()->metadata.empty(); }

template <class F>
void for_each_node(Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    for (Graph* g : graphs_in(function->graph())) {
      for (Node& n : g->nodes()) f(n);
    }
  }
}

Provenance provenance_of(const NodeOrigin& origin) {
  Provenance p{.sources = {}, .source_count = static_cast<uint32_t>(origin.lines.size()), .rules = origin.rules};
  const size_t count = std::min(kMostSources, std::max({origin.lines.size(), origin.lowerings.size(), size_t{1}}));
  for (size_t i = 0; i < count; ++i) {
    Source s;
    if (i < origin.lines.size()) {
      s.file = origin.lines[i].file;
      s.line = origin.lines[i].line;
      s.function = origin.lines[i].function;
    }
    if (i < origin.lowerings.size()) s.lowering = origin.lowerings[i];
    p.sources.push_back(std::move(s));
  }
  p.sources.front().scope = origin.scope;
  return p;
}

}  // namespace

KeptOrigins::KeptOrigins(Model& m, bool all) : m_(m) {
  if (all && m.dialect() == DialectId::kOnnx) for_each_node(m, [&](Node& n) { read(n); });
}

void KeptOrigins::firing(Model&, const Firing& f) {
  for (Node* n : f.matched) {
    if (n->provenance() == 0 && n->extra() != nullptr) read(*n);
  }
}

void KeptOrigins::read(Node& n) {
  if (n.provenance() != 0 || !has_metadata(n)) return;
  const NodeOrigin origin = origin_of(n);
  if (origin.lines.empty() && origin.scope.empty() && origin.lowerings.empty() && origin.rules.empty()) return;
  n.set_provenance(m_.add_provenance(provenance_of(origin)));
  given_.insert(n.provenance());
}

void KeptOrigins::restore() {
  if (given_.empty()) return;
  for_each_node(m_, [&](Node& n) {
    if (has_metadata(n) && given_.contains(n.provenance())) n.set_provenance(0);
  });
}

}  // namespace sardonyx
