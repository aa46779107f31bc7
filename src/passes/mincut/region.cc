#include "passes/mincut/region.h"

#include <algorithm>

namespace sardonyx::layout {
namespace {

// Nodes with bodies, and the boundaries of bodies: only tied values follow there.
bool is_control_flow(const Node& n) { return n.is_boundary() || !n.bodies().empty(); }

// The operand that a use is, or the result of its graph.
size_t slot_of(const Use& u) {
  if (!u.owner->is_boundary()) return u.owner->operand_index(u);
  const auto outputs = u.owner->graph()->outputs();
  const auto at = std::ranges::find_if(outputs, [&](const Port& p) { return p.use == &u; });
  return static_cast<size_t>(at - outputs.begin());
}

}  // namespace

Layout layout_of(const Var& v, bool stacked) { return stacked ? with_axes(v.move.main, {v.tied->axis}) : v.move.main; }

RegionFinder::RegionFinder(std::span<Graph* const> graphs, Operators& operators)
    : graphs_(graphs),
      operators_(operators),
      tied_of_(operators.context().model, kNone),
      var_of_(operators.context().model, kNone),
      label_of_(operators.context().model, kNone),
      root_of_(operators.context().model, kNone) {}

void RegionFinder::find_tied_values() {
  tied_.clear();
  tied_operands_.clear();
  tied_of_ = ValueMap<uint32_t>(operators_.context().model, kNone);
  for (Graph* top : graphs_) {
    for (Graph* g : graphs_in(*top)) {
      for (Node& n : g->nodes()) std::ranges::move(tied_values(n), std::back_inserter(tied_));
    }
  }
  for (uint32_t i = 0; i < tied_.size(); ++i) {
    for (const TiedValues::Operand& o : tied_[i].read) tied_operands_[{o.owner, o.slot}] = i;
    for (const Value* made : tied_[i].made) tied_of_[*made] = i;
  }
  var_of_tied_.assign(tied_.size(), kNone);
}

Region RegionFinder::around(Value& v, const Layout& l, uint64_t* work) {
  explore(v, l);
  if (!region_.vars.empty()) find_roots();
  for (const auto& [value, label] : region_.labels) label_of_[*value] = kNone;
  for (const Var& var : region_.vars) {
    if (var.node != nullptr) var_of_[*var.node] = kNone;
    if (var.tied != nullptr) var_of_tied_[static_cast<size_t>(var.tied - tied_.data())] = kNone;
  }
  *work += std::exchange(work_, 0);
  return std::exchange(region_, {});
}

// --- variables

// v is the result of a transpose when the users of a transpose are what may move.
void RegionFinder::explore(Value& v, const Layout& l) {
  label(v, l);
  for (size_t i = 0; i < region_.labels.size(); ++i) {
    Value& value = *region_.labels[i].first;
    const Layout layout = region_.labels[i].second;
    ++work_;
    if (value.is_constant()) {
      if (Operators::can_store(*value.constant()))
        region_.vars.push_back({.constant = &value, .move = {.results = {layout}, .main = layout}});
    } else if (const uint32_t tied = tied_of_[value]; tied != kNone) {
      add_tied(tied, layout, tied_[tied].made_stacked);
    } else if (Node* def = value.def(); def != nullptr && var_of_[*def] == kNone && !def->unchecked()) {
      if (auto m = operators_.from_result(*def, value.index(), layout)) add(*def, std::move(*m));
    }
    for (const Use& u : value.uses()) {
      ++work_;
      Node& user = *u.owner;
      if (is_control_flow(user)) {
        const uint32_t index = tied_operand(user, slot_of(u));
        if (index != kNone) add_tied(index, layout, tied_[index].read_stacked);
      } else if (var_of_[user] == kNone && !user.unchecked()) {
        if (auto m = operators_.from_operand(user, user.operand_index(u), layout)) add(user, std::move(*m));
      }
    }
  }
}

// The first label stays. Values that others want with more axes have none.
void RegionFinder::label(Value& v, const Layout& l) {
  if (label_of_[v] != kNone || !l.is_permutation()) return;
  label_of_[v] = static_cast<uint32_t>(region_.labels.size());
  region_.labels.emplace_back(&v, l);
}

void RegionFinder::label_operand(Value& v, const Layout& l) {
  const auto [root, seen_through] = Operators::look_through(v);
  if (!Operators::is_free(*root)) label(*root, then(seen_through, l));
}

bool RegionFinder::clashes(const Value& v, const Layout& l) {
  const uint32_t at = label_of_[v];
  return at != kNone && !(region_.labels[at].second == l);
}

void RegionFinder::add(Node& n, Move m) {
  for (size_t i = 0; i < m.results.size(); ++i) {
    if (!m.results[i].is_as_is() && clashes(*n.result(i), m.results[i])) return;
  }
  for (size_t i = 0; i < m.results.size(); ++i) label(*n.result(i), m.results[i]);
  for (size_t i = 0; i < m.operands.size(); ++i) {
    if (n.input(i) != nullptr) label_operand(*n.input(i), m.operands[i]);
  }
  var_of_[n] = static_cast<uint32_t>(region_.vars.size());
  region_.vars.push_back({.node = &n, .move = std::move(m)});
}

// One of the tied values is stored as l.
void RegionFinder::add_tied(uint32_t index, const Layout& l, bool stacked) {
  const TiedValues& t = tied_[index];
  if (var_of_tied_[index] != kNone) return;
  const int64_t along[] = {t.axis};
  const Var var{.tied = &t, .move = {.main = stacked ? without_axes(l, along) : l}};
  const Layout made_as = layout_of(var, t.made_stacked);
  if (std::ranges::any_of(t.made, [&](const Value* made) { return clashes(*made, made_as); })) return;
  for (Value* made : t.made) label(*made, made_as);
  for (const TiedValues::Operand& o : t.read) label_operand(*o.value(), layout_of(var, t.read_stacked));
  var_of_tied_[index] = static_cast<uint32_t>(region_.vars.size());
  region_.vars.push_back(var);
}

uint32_t RegionFinder::tied_operand(Node& owner, size_t slot) const {
  const auto at = tied_operands_.find({&owner, slot});
  return at != tied_operands_.end() ? at->second : kNone;
}

// --- roots

void RegionFinder::find_roots() {
  std::vector<Root>& roots = region_.roots;
  const auto root_of = [&](Value& v) -> Root& {
    uint32_t& at = root_of_[v];
    if (at == kNone) {
      at = static_cast<uint32_t>(roots.size());
      roots.push_back({.value = &v});
    }
    return roots[at];
  };
  const auto makes = [&](uint32_t var, Value& v, const Layout& l) {
    Root& root = root_of(v);
    root.var = var;
    root.stored = l;
  };
  const auto reads = [&](Value& v) {
    if (Value* root = Operators::look_through(v).first; !Operators::is_free(*root)) root_of(*root);
  };
  for (uint32_t i = 0; i < region_.vars.size(); ++i) {
    const Var& var = region_.vars[i];
    if (var.constant != nullptr) {
      makes(i, *var.constant, var.move.results[0]);
    } else if (var.tied != nullptr) {
      for (Value* made : var.tied->made) makes(i, *made, layout_of(var, var.tied->made_stacked));
      for (const TiedValues::Operand& o : var.tied->read) reads(*o.value());
    } else {
      for (size_t k = 0; k < var.move.results.size(); ++k) {
        if (!var.move.results[k].is_as_is()) makes(i, *var.node->result(k), var.move.results[k]);
      }
      for (size_t k = 0; k < var.move.operands.size(); ++k) {
        if (!var.move.operands[k].is_as_is()) reads(*var.node->input(k));
      }
    }
  }
  for (Root& root : roots) {
    root_of_[*root.value] = kNone;
    for (Use& u : root.value->uses()) {
      ++work_;
      if (const auto l = Operators::transposition(*u.owner)) {
        for (Use& through : u.owner->result()->uses()) add_use(root, through, *l);
      } else {
        add_use(root, u, Layout::identity(root.value->type()->rank()));
      }
    }
  }
}

void RegionFinder::add_use(Root& root, Use& u, const Layout& now) {
  ++work_;
  RootUse use{.owner = u.owner,
              .slot = slot_of(u),
              .graph = u.owner->graph(),
              .now = now,
              .moved = now,
              .product = Operators::reads_swapped(*u.owner)};
  if (is_control_flow(*u.owner)) {
    const uint32_t index = tied_operand(*u.owner, use.slot);
    if (index != kNone && var_of_tied_[index] != kNone) {
      use.var = var_of_tied_[index];
      use.moved = then(now, layout_of(region_.vars[use.var], tied_[index].read_stacked));
    }
  } else if (var_of_[*u.owner] != kNone) {
    use.var = var_of_[*u.owner];
    const Move& m = region_.vars[use.var].move;
    if (use.slot < m.operands.size()) use.moved = then(now, m.operands[use.slot]);
  }
  root.uses.push_back(use);
}

}  // namespace sardonyx::layout
