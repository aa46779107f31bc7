#include "convert/interface/op_names.h"

#include <fmt/format.h>

#include <vector>

#include "passes/option_lists.h"
#include "rewrite/pass.h"
#include "sardonyx/error.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

template <class F>
void for_each_name(const Model& m, const F& visit) {
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) {
        visit(n.name().view());
        for (const Value& v : n.results()) visit(v.name().view());
      }
    }
  }
}

}  // namespace

Names names_not_in(const Model& m, std::string_view list) {
  Names unknown = split_names(list);
  for_each_name(m, [&](std::string_view name) {
    if (const auto at = unknown.find(name); at != unknown.end()) unknown.erase(at);
  });
  return unknown;
}

void refuse_kept(const std::string& name, const Model& m) {
  std::vector<std::string_view> known;
  for_each_name(m, [&](std::string_view one) {
    if (!one.empty()) known.push_back(one);
  });
  std::vector<std::string> notes;
  if (const std::string_view meant = nearest(name, known); !meant.empty())
    notes.push_back(fmt::format("did you mean '{}'?", meant));
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("keep_f32 has '{}', and no node or value of the model is called so", name), std::move(notes));
}

}  // namespace sardonyx
