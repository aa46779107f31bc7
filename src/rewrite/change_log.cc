#include "sardonyx/observe.h"

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

void ChangeLog::begin_pipeline(const Model& m, size_t num_entries) {
  first_entry_ = entries.size();
  entries.resize(first_entry_ + num_entries);
  firings_.clear();
  before_ = count(m);
}

void ChangeLog::after_pass(const Model& m, const PassStep& step, bool changed) {
  if (!changed) return firings_.clear();
  std::map<std::string, size_t> after = count(m);
  Entry& e = entries[first_entry_ + step.first];
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

void ChangeLog::fired(const sardonyx::Firing& f, std::span<Node* const>, uint32_t, std::span<Value* const>) {
  const Node& root = *f.matched.front();
  Firing& last = firings_.emplace_back(std::string(f.pass), std::string(f.name), std::string(root.op().name),
                                       std::string(root.name().view()));
  if (last.name.empty() && root.num_results() > 0) last.name = root.result(0)->name().view();
}

}  // namespace sardonyx
