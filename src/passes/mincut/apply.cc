#include "passes/mincut/apply.h"

#include <unordered_map>

#include "passes/mincut/cost.h"
#include "sardonyx/infer.h"

namespace sardonyx::layout {
namespace {

class Application {
 public:
  Application(Region& r, Operators& operators)
      : region_(r), operators_(operators), context_(operators.context()), types_(context_.model.types()) {}

  void run() {
    std::vector<Layout> stored;  // rebuilding does not change them, but uses
    for (const Root& root : region_.roots) stored.push_back(region_.stored(root));
    for (const Var& v : region_.vars) {
      if (v.moved) move(v);
    }
    for (const Var& v : region_.vars) {
      if (v.moved && v.tied != nullptr) retype(v);
    }
    for (size_t i = 0; i < region_.roots.size(); ++i) supply(region_.roots[i], stored[i]);
    for (const Var& v : region_.vars) {
      for (size_t i = 0; v.moved && v.node != nullptr && i < v.node->num_inputs(); ++i) v.node->set_input(i, nullptr);
    }
    for (const Root& root : region_.roots) erase_dead_transposes(*root.value);
    for (const Var& v : region_.vars) {
      if (v.moved && v.node != nullptr) v.node->graph()->erase(*v.node);
    }
    for (const Var& v : region_.vars) {
      if (v.moved && v.node != nullptr) infer_node(*rebuilt_[v.node], context_.facts);
    }
  }

 private:
  void move(const Var& v) {
    if (v.tied != nullptr) {
      context_.log.count("tied values moved");
    } else if (v.constant != nullptr) {
      context_.log.count("constants moved");
      v.constant->graph()->set_constant(*v.constant, Operators::stored(v.constant->constant(), v.move.results[0]));
    } else {
      context_.log.count("nodes moved");
      rebuild(v);
    }
  }

  void rebuild(const Var& v) {
    Node& old = *v.node;
    std::vector<Value*> results;
    Node& n = operators_.rebuild(old, v.move, &results);
    n.set_name(old.name());
    n.set_provenance(old.provenance());
    rebuilt_[&old] = &n;
    for (size_t i = 0; i < v.move.operands.size(); ++i) {
      if (v.move.operands[i].is_as_is()) continue;
      const auto [root, seen_through] = Operators::look_through(*old.input(i));
      if (!Operators::is_free(*root)) continue;
      const Layout l = then(seen_through, v.move.operands[i]);
      n.set_input(slot_in(v, i), operators_.store_constant(*root, l, *old.graph(), &n));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Value& was = *old.result(i);
      const Layout& l = i < v.move.results.size() ? v.move.results[i] : Layout::as_is();
      results[i]->set_type(stored_type(types_, was.type(), l));
      if (l.is_as_is()) {
        results[i]->set_name(was.name());
        if (const SymbolicValue* known = context_.facts.find(was)) context_.facts.set(*results[i], *known);
        old.graph()->replace_uses(was, *results[i]);
      }
      made_[&was] = results[i];
    }
  }

  // Where the new node has an operand of the old one.
  static size_t slot_in(const Var& v, size_t slot) { return v.move.swaps_operands ? 1 - slot : slot; }

  // Tied values are stored otherwise from now on.
  void retype(const Var& v) {
    for (Value* made : v.tied->made) {
      const Layout l = layout_of(v, v.tied->made_stacked);
      Graph& g = *made->graph();
      made->set_type(stored_type(types_, made->type(), l));
      if (made->kind() == ValueKind::kInput) {
        Port& port = g.input_port(made->index());
        port.declared = stored_type(types_, port.declared, l);
      }
      const auto info = g.value_info.find(made);
      if (info == g.value_info.end()) continue;
      const Type* now = stored_type(types_, info->second.declared, l);
      g.edit_value_info(*made).declared = now;
    }
    for (const TiedValues::Operand& o : v.tied->read) {
      const Layout l = layout_of(v, v.tied->read_stacked);
      Graph& g = *o.owner->graph();
      if (o.owner->is_boundary()) {
        Port& port = g.output_port(o.slot);
        port.declared = stored_type(types_, port.declared, l);
      }
      const auto [root, seen_through] = Operators::look_through(*o.value());
      if (!Operators::is_free(*root)) continue;
      Node* before = o.owner->is_boundary() ? nullptr : o.owner;
      set_operand(*o.owner, o.slot, *operators_.store_constant(*root, then(seen_through, l), g, before));
    }
  }

  static void set_operand(Node& owner, size_t slot, Value& v) {
    if (owner.is_boundary()) {
      owner.graph()->set_output(slot, v);
    } else {
      owner.set_input(slot, &v);
    }
  }

  // Gives each use of the root, which is stored as `stored` now, what it wants.
  void supply(const Root& root, const Layout& stored) {
    const auto moved = made_.find(root.value);
    Value& source = moved != made_.end() ? *moved->second : *root.value;
    std::vector<std::tuple<Layout, Graph*, Value*>> supplied;
    for (const RootUse& use : root.uses) {
      const Layout& want = region_.wanted(use);
      Value* v = want == stored ? &source : nullptr;
      for (const auto& [layout, graph, value] : supplied) {
        if (layout == want && graph == use.graph) v = value;
      }
      if (v == nullptr) {
        Graph& g = *use.graph;
        Node* before = &g == source.graph() && source.def() != nullptr ? source.def()->next() : g.first();
        v = stored.is_identity() ? existing_transpose(source, want, g, before) : nullptr;
        if (v == nullptr) v = make_transpose(source, relative(stored, want), g, before);
        supplied.emplace_back(want, &g, v);
      }
      Node* owner = use.owner;
      size_t slot = use.slot;
      if (const auto n = rebuilt_.find(owner); n != rebuilt_.end()) {
        slot = slot_in(region_.vars[use.var], slot);
        const Value* has = n->second->input(slot);
        if (has != nullptr && has != owner->input(use.slot)) continue;  // a parameter that rebuild() has set
        owner = n->second;
      }
      set_operand(*owner, slot, *v);
    }
  }

  // A transpose that is there already, put where every user of the root can see it.
  static Value* existing_transpose(Value& source, const Layout& want, Graph& g, Node* before) {
    for (const Use& u : source.uses()) {
      Node& t = *u.owner;
      const auto l = t.graph() == &g ? Operators::transposition(t) : std::nullopt;
      if (!l || !(*l == want)) continue;
      if (before != &t) {
        g.detach(t);
        g.insert_before(*before, t);
      }
      return t.result();
    }
    return nullptr;
  }

  Value* make_transpose(Value& source, const Layout& l, Graph& g, Node* before) {
    context_.log.count("transposes made");
    Value* v = operators_.store(source, l, g, before);
    v->set_type(stored_type(types_, source.type(), l));
    return v;
  }

  // Dead transposes have the types of a value that may be stored otherwise now.
  static void erase_dead_transposes(Value& v) {
    for (auto u = v.uses().begin(); u != v.uses().end();) {
      Node& t = *(u++)->owner;
      if (Operators::transposition(t) && !t.any_result_used()) t.graph()->erase(t);
    }
  }

  Region& region_;
  Operators& operators_;
  PassContext& context_;
  Types& types_;
  std::unordered_map<const Value*, Value*> made_;   // by old result
  std::unordered_map<const Node*, Node*> rebuilt_;  // by old node
};

}  // namespace

void apply(Region& r, Operators& operators) { Application(r, operators).run(); }

}  // namespace sardonyx::layout
