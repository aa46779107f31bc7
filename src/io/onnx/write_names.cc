#include "io/onnx/write_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/wire.h"
#include "ir/graph/file_record.h"
#include "sardonyx/error.h"

namespace sardonyx::onnx_file {
namespace {

// The owner of names without a value: results of Identity nodes that only the file has.
const Value kNobody{};

bool is_used_inside(const Value& v, const Graph& g) {
  for (const Use& u : v.uses()) {
    const Graph* at = u.owner->graph();
    while (at != nullptr && at != &g) at = at->enclosing();
    if (at == &g) return true;
  }
  return false;
}

}  // namespace

WriteNames::WriteNames(const Model& model) : model_(model), names_(model.value_id_limit()) {
  for (const auto& f : model.functions()) name_graph(f->graph(), nullptr);
}

// Whether v, of an enclosing graph, is computed before the bodies run that contain the graph `inner`.
bool WriteNames::is_made_before(const Value& v, const Graph& inner) {
  const Graph* outer = v.graph();
  if (v.def() == nullptr) return true;
  const Node* owner = inner.parent();
  while (owner->graph() != outer) owner = owner->graph()->parent();
  auto& places = places_[outer];
  if (places.empty()) {
    for (const Node& n : outer->nodes()) places.emplace(&n, places.size());
  }
  return places.at(v.def()) < places.at(owner);
}

// Whether `name` may be defined in the graph of s. It must not be taken there, hide a value used inside, or
// be the name of a value of an enclosing graph that already exists. The standard's checker and onnxruntime
// refuse the last, except for signatures of bodies whose operator they do not know.
bool WriteNames::is_free(const Scope& s, std::string_view name, bool in_signature) {
  if (s.table.find(name) != nullptr) return false;
  const bool may_hide = in_signature && s.graph->parent() != nullptr && !s.graph->parent()->op().known;
  for (const Scope* o = s.outer; o != nullptr; o = o->outer) {
    const Value* v = o->table.find(name);
    if (v == nullptr || v == &kNobody) continue;
    if (may_hide) {
      if (is_used_inside(*v, *s.graph)) return false;
      continue;
    }
    auto [at, unknown] = captured_.try_emplace(v, false);
    if (unknown) {
      for (const Use& u : v->uses()) {
        if (u.owner->graph() != v->graph()) {
          at->second = true;
          break;
        }
      }
    }
    if (at->second || is_made_before(*v, *s.graph)) return false;
  }
  return true;
}

bool WriteNames::take(Scope& s, Name name, const Value& v, bool in_signature) {
  if (s.outer != nullptr && !is_free(s, name.view(), in_signature)) return false;
  if (s.table.insert(name, &v) != nullptr) return false;
  names_[v.id()] = name;
  return true;
}

bool WriteNames::reserve(Scope& s, Name name) {
  return is_free(s, name.view(), /*in_signature=*/true) && s.table.insert(name, &kNobody) == nullptr;
}

Name WriteNames::invent(Scope& s, std::string_view base) {
  for (;;) {
    const std::string text = fmt::format("{}_{}", base, counters_[base]++);
    bool used = false;
    for (const Scope* o = &s; o != nullptr && !used; o = o->outer) used = o->table.find(text) != nullptr;
    if (used) continue;
    std::string& kept = invented_.emplace_back();
    wire::append_varint(kept, text.size());
    kept += text;
    return Name(reinterpret_cast<const uint8_t*>(kept.data()));
  }
}

// Whether the name of a constant is known outside of the graph: to a caller, in training information, in
// annotations of quantized tensors.
bool WriteNames::is_named_outside(const Value& v) const {
  const Graph& g = *v.graph();
  const FileRecord& record = model_.file_record();
  if (!record.model.training_info.empty() || !record.of(g).quantization_annotations.empty()) return true;
  if (std::ranges::any_of(record.of(g).listed_inputs, [&](const auto& listed) { return listed.constant == &v; })) return true;
  return std::ranges::any_of(g.outputs(), [&](const Port& p) { return p.name == v.name(); });
}

void WriteNames::name_outputs(Scope& s, bool fixed) {
  const Graph& g = *s.graph;
  auto& outputs = outputs_[&g];
  outputs.resize(g.outputs().size());
  // Functions have no initializers, so their constants are written as nodes.
  const bool constants_are_nodes = g.function() != nullptr && g.function() != &model_.main();
  const auto clash = [](Name name) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("two values of the signature are called '{}'", name.view()));
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Port& port = g.outputs()[i];
    const Value& v = *port.use->value;
    Output& out = outputs[i];
    out.name = port.name;
    const bool is_constant = v.kind() == ValueKind::kConstant;
    const bool made_here = v.graph() == &g && (v.def() != nullptr || (constants_are_nodes && is_constant));
    if (made_here && of(v).empty()) {
      Name wanted = port.name.empty() ? v.name() : port.name;
      if (wanted.empty() || !take(s, wanted, v, /*in_signature=*/true)) {
        if (fixed && !port.name.empty()) clash(port.name);
        take(s, invent(s, wanted.empty() ? "output" : wanted.view()), v);
      }
      out.name = of(v);
      continue;
    }
    // A value that is returned directly: an input or an initializer under its own name, or twice under one
    // name. Not an outer value, even if it has the result's name: onnxruntime refuses that.
    if (v.graph() == &g && !port.name.empty() && of(v) == port.name) continue;
    // An initializer takes the name of the result that returns it, unless it is also returned under its own
    // name, or something outside of the graph refers to it.
    const bool may_be_called_so = v.name() == port.name || v.name().empty() || (is_constant && !is_named_outside(v));
    if (is_constant && v.graph() == &g && of(v).empty() && may_be_called_so) {
      if (!port.name.empty() && take(s, port.name, v)) continue;
      if (port.name.empty()) {  // of a body
        if (v.name().empty() || !take(s, v.name(), v)) take(s, invent(s, "output"), v);
        out.name = of(v);
        continue;
      }
    }
    out.identity = true;
    if (port.name.empty() || !reserve(s, port.name)) {
      if (fixed && !port.name.empty()) clash(port.name);
      out.name = invent(s, "output");
      reserve(s, out.name);
    }
  }
}

void WriteNames::name_graph(const Graph& g, const Scope* outer) {
  const bool fixed = g.parent() == nullptr;
  Scope s{&g, outer, NameTable<const Value>(g.num_nodes() + g.constants().size() + g.inputs().size() + g.outputs().size())};
  // The signature first, because callers depend on its names.
  for (const Port& port : g.inputs()) {
    if (!port.name.empty() && take(s, port.name, *port.value, /*in_signature=*/true)) continue;
    if (fixed && !port.name.empty()) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("two inputs are called '{}'", port.name.view()));
    }
    take(s, invent(s, "input"), *port.value);
  }
  name_outputs(s, fixed);
  // Then values that have a name.
  bool some_unnamed = false;
  const auto keep_now = [&](const Value& v, uint64_t hash) {
    const bool taken = s.outer == nullptr ? s.table.insert(hash, v.name(), &v) == nullptr : take(s, v.name(), v);
    if (taken) {
      names_[v.id()] = v.name();
    } else {
      some_unnamed = true;
    }
  };
  // Delay a few names while the table's slots are prefetched.
  constexpr size_t kAhead = 8;
  std::pair<const Value*, uint64_t> waiting[kAhead] = {};
  size_t at = 0;
  const auto keep = [&](const Value& v, bool needed) {
    if (!of(v).empty()) return;
    if (v.name().empty()) {
      some_unnamed |= needed;
      return;
    }
    auto& [oldest, hash] = waiting[at++ % kAhead];
    if (oldest != nullptr) keep_now(*oldest, hash);
    oldest = &v;
    hash = NameTable<const Value>::hash(v.name().view());
    s.table.prefetch(hash);
  };
  for (const Value* v : g.constants()) keep(*v, true);
  const auto needs_name = [](const Node& n, const Value& v) {
    // An unused result may be unnamed only if the operator declares it optional: otherwise the checker
    // refuses a TopK, and onnxruntime cannot load a Loop.
    const auto slots = n.op().outputs;
    return v.has_uses() || (!slots.empty() && slots[std::min<size_t>(v.index(), slots.size() - 1)].arity != Arity::kOptional);
  };
  std::vector<const Node*> with_bodies;
  for (const Node& n : g.nodes()) {
    for (const Value& v : n.results()) keep(v, needs_name(n, v));
    if (!n.bodies().empty()) with_bodies.push_back(&n);
  }
  for (size_t i = 0; i < kAhead; ++i) {
    if (const auto& [v, hash] = waiting[at++ % kAhead]; v != nullptr) keep_now(*v, hash);
  }
  if (some_unnamed) {
    for (const Value* v : g.constants()) {
      if (of(*v).empty()) take(s, invent(s, v->name().empty() ? "constant" : v->name().view()), *v);
    }
    for (const Node& n : g.nodes()) {
      for (const Value& v : n.results()) {
        if (of(v).empty() && (needs_name(n, v) || !v.name().empty())) {
          take(s, invent(s, v.name().empty() ? n.op().name : v.name().view()), v);
        }
      }
    }
  }
  for (const Node* n : with_bodies) {
    for (const Body& body : n->bodies()) name_graph(*body.graph, &s);
  }
}

}  // namespace sardonyx::onnx_file
