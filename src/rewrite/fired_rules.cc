#include "rewrite/fired_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "rewrite/pass.h"

namespace sardonyx {
namespace {

constexpr char kMark = '+';

void forget_fired_rules(Model& m) {
  std::unordered_map<uint32_t, uint32_t> plain;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& n : g->nodes()) {
        if (n.provenance() == 0) continue;
        const auto [at, is_new] = plain.try_emplace(n.provenance(), n.provenance());
        if (is_new) {
          Provenance p = m.provenance(n.provenance());
          if (std::erase_if(p.rules, [](const std::string& r) { return r.starts_with(kMark); }) > 0)
            at->second = m.add_provenance(std::move(p));
        }
        n.set_provenance(at->second);
      }
    }
  }
}

}  // namespace

uint32_t with_fired_rule(Model& m, uint32_t provenance, std::string_view pass, std::string_view rule) {
  std::string name =
      rule.empty() || rule == pass ? fmt::format("{}{}", kMark, pass) : fmt::format("{}{}/{}", kMark, pass, rule);
  Provenance p = m.provenance(provenance);
  if (std::ranges::find(p.rules, name) != p.rules.end()) return provenance;
  p.rules.push_back(std::move(name));
  return m.add_provenance(std::move(p));
}

std::string_view without_mark(std::string_view rule) {
  if (rule.starts_with(kMark)) rule.remove_prefix(1);
  return rule;
}

void end_run(Observer* observer, Model& m) {
  if (observer == nullptr) return;
  observer->done(m);
  if (observer->names_rules()) forget_fired_rules(m);
}

}  // namespace sardonyx
