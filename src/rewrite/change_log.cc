#include "rewrite/change_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "rewrite/pass.h"

namespace sardonyx {

std::map<std::string, size_t> ChangeLog::count(const Model& m) {
  std::map<const Op*, size_t> by_op;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) ++by_op[&n.op()];
    }
  }
  std::map<std::string, size_t> by_name;  // versions of one op are counted together
  for (const auto& [op, times] : by_op) by_name[std::string(op->name)] += times;
  return by_name;
}

void ChangeLog::begin(const Model& m, size_t num_entries) {
  if (on_begin) on_begin(m);
  entries.assign(num_entries, {});
  firings_.clear();
  before_ = count(m);
}

void ChangeLog::changed(const Model& m, size_t i, std::string_view name) {
  if (on_step) on_step(m, name, firings_);
  std::map<std::string, size_t> after = count(m);
  Entry& e = entries[i];
  for (const auto& [op, times] : before_) {
    const auto at = after.find(op);
    const size_t now = at == after.end() ? 0 : at->second;
    if (now != times) e.ops[op] = {times, now};
  }
  for (const auto& [op, times] : after) {
    if (!before_.contains(op)) e.ops[op] = {0, times};
  }
  e.firings.insert(e.firings.end(), std::make_move_iterator(firings_.begin()), std::make_move_iterator(firings_.end()));
  firings_.clear();
  before_ = std::move(after);
}

void ChangeLog::fired(std::string_view pass, std::string_view rule, const Node& at) {
  Firing& f =
      firings_.emplace_back(std::string(pass), std::string(rule), std::string(at.op().name), std::string(at.name().view()));
  if (f.name.empty() && at.num_results() > 0) f.name = at.result(0)->name().view();
}

uint32_t ChangeLog::with_rule(Model& m, uint32_t provenance) const {
  const Firing& last = firings_.back();
  std::string name = last.rule.empty() || last.rule == last.pass ? last.pass : fmt::format("{}/{}", last.pass, last.rule);
  Provenance p = m.provenance(provenance);
  if (std::ranges::find(p.rules, name) != p.rules.end()) return provenance;
  p.rules.push_back(std::move(name));
  return m.add_provenance(std::move(p));
}

}  // namespace sardonyx
