#include "convert/interface/input_shapes.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "rewrite/pass.h"
#include "sardonyx/infer.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

struct InputSpec {
  std::string name;
  const Type* type;  // dtype undefined if the text does not give it
};

InputSpec parse_spec(Model& m, std::string text) {
  for (size_t at = 0; (at = text.find("-1", at)) != std::string::npos;) {
    const bool is_size = at > 0 && std::string_view(":[, ").find(text[at - 1]) != std::string_view::npos &&
                         (at + 2 == text.size() || std::string_view(",] ").find(text[at + 2]) != std::string_view::npos);
    text.replace(at, is_size ? 2 : 0, is_size ? "?" : "");
    at += is_size ? 1 : 2;
  }
  const auto malformed = [&] {
    return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not an input shape", text),
                 {"expected x=f32[1,3,B] or x:1,3,B"});
  };
  // Names may contain colons ("input:0"): the last separator counts.
  const size_t equals = text.rfind('='), colon = text.rfind(':');
  if (equals != std::string::npos && equals > 0) {
    std::string type = text.substr(equals + 1);
    if (type.starts_with("[")) type = "f32" + type;
    if (type.find('[') == std::string::npos) throw malformed();
    const Type* t = m.types().parse(type);
    return {text.substr(0, equals), text[equals + 1] == '[' ? m.types().with_dtype(t, DType::kUndefined) : t};
  }
  if (colon == std::string::npos || colon == 0) throw malformed();
  return {text.substr(0, colon),
          m.types().with_dtype(m.types().parse("f32[" + text.substr(colon + 1) + "]"), DType::kUndefined)};
}

[[noreturn]] void refuse(std::string what, std::string note) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), {std::move(note)});
}

Port& input_named(Graph& g, std::string_view name) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    names.push_back(g.inputs()[i].name.view());
    if (names.back() == name) return g.input_port(i);
  }
  const std::string_view meant = nearest(name, names);
  refuse(fmt::format("the model has no input '{}'", name),
         meant.empty() ? fmt::format("it has: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant));
}

// The sizes that symbols of the model get.
using FixedSizes = std::map<std::string, Dim, std::less<>>;

// Matches the declared type of the input with the given one: refuses contradictions and adds the sizes that
// symbols get.
void match_shapes(const Type* has, const InputSpec& spec, const std::string& text, Model& m, FixedSizes& fixed) {
  if (has == nullptr || !has->is_tensor()) return;
  const Dims& dims = m.dims();
  if (spec.type->dtype() != DType::kUndefined && has->dtype() != spec.type->dtype())
    refuse(fmt::format("input '{}' is {}, not {}", spec.name, to_string(has->dtype()), to_string(spec.type->dtype())),
           "the element type cannot be changed");
  if (has->ranked() && has->rank() != spec.type->rank())
    refuse(fmt::format("input '{}' has {} axes, '{}' has {}", spec.name, has->rank(), text, spec.type->rank()),
           fmt::format("the model says {}", m.types().to_string(has)));
  for (size_t i = 0; has->ranked() && i < has->rank(); ++i) {
    const Dim old = has->dim(i), now = spec.type->dim(i);
    if (now.is_unknown()) continue;
    if (old.is_int() && !(old == now))
      refuse(fmt::format("axis {} of input '{}' is {}, not {}", i, spec.name, dims.to_string(old), dims.to_string(now)),
             "only sizes that the model leaves open can be set");
    if (const std::string_view symbol = dims.symbol_name(old); !symbol.empty() && !(old == now)) {
      const auto [at, is_new] = fixed.emplace(symbol, now);
      if (!is_new && !(at->second == now))
        refuse(fmt::format("the size '{}' would be both {} and {}", symbol, dims.to_string(at->second), dims.to_string(now)),
               "axes with the same name have the same size");
    }
  }
}

void substitute_sizes(Model& m, const FixedSizes& fixed) {
  Dims& dims = m.dims();
  const auto substituted = [&](const Type* t) -> const Type* {
    if (t == nullptr || !t->is_tensor() || !t->ranked()) return t;
    std::vector<Dim> now;
    for (Dim d : t->dims()) {
      now.push_back(dims.substitute(d, [&](std::string_view symbol) -> std::optional<Dim> {
        const auto at = fixed.find(symbol);
        return at == fixed.end() ? std::nullopt : std::optional(at->second);
      }));
    }
    return m.types().with_dims(t, now);
  };
  std::vector<Graph*> todo{&m.graph()};
  while (!todo.empty()) {
    Graph& at = *todo.back();
    todo.pop_back();
    for (size_t i = 0; i < at.inputs().size(); ++i) at.input_port(i).declared = substituted(at.inputs()[i].declared);
    for (size_t i = 0; i < at.outputs().size(); ++i) at.output_port(i).declared = substituted(at.outputs()[i].declared);
    for (auto& [value, info] : at.value_info) info.declared = substituted(info.declared);
    for (const Port& p : at.inputs()) p.value->set_type(substituted(p.value->type()));
    for (Node& n : at.nodes()) {
      for (Value& v : n.results()) v.set_type(substituted(v.type()));
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
}

}  // namespace

void fix_input_shapes(Model& m, const std::vector<std::string>& specs) {
  if (specs.empty()) return;
  FixedSizes fixed;
  std::vector<std::pair<Port*, const Type*>> wanted;
  for (const std::string& text : specs) {
    const InputSpec spec = parse_spec(m, text);
    Port& port = input_named(m.graph(), spec.name);
    const Type* has = port.declared;
    match_shapes(has, spec, text, m, fixed);
    // -1 and ? leave a size as it is.
    std::vector<Dim> sizes(spec.type->dims().begin(), spec.type->dims().end());
    for (size_t i = 0; has != nullptr && has->is_tensor() && has->ranked() && i < sizes.size(); ++i) {
      if (sizes[i].is_unknown()) sizes[i] = has->dim(i);
    }
    const Type* type = m.types().with_dims(spec.type, sizes);
    wanted.emplace_back(&port, m.types().with_dtype(type, has != nullptr ? has->dtype() : spec.type->dtype()));
  }
  substitute_sizes(m, fixed);
  for (auto& [port, type] : wanted) {
    port->declared = type;
    port->value->set_type(m.types().freshen(type));
  }
}

namespace {

// Of values that nodes make and of results: only element type and rank stay.
void forget_sizes(Model& m) {
  const auto without = [&](const Type* t) {
    if (t == nullptr || !t->is_tensor() || !t->ranked()) return t;
    std::vector<Dim> dims(t->rank());
    for (Dim& d : dims) d = m.dims().fresh_unknown();
    return m.types().with_dims(t, dims);
  };
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (auto& [value, info] : g->value_info) info.declared = without(info.declared);
      for (size_t i = 0; i < g->outputs().size(); ++i) g->output_port(i).declared = without(g->outputs()[i].declared);
      for (Node& n : g->nodes()) {
        for (Value& v : n.results()) v.set_type(without(v.type()));
      }
    }
  }
}

void set_type(Model& m, Port& port, std::span<const Dim> dims) {
  const Type* t = m.types().with_dims(port.declared != nullptr ? port.declared : port.value->type(), dims);
  port.declared = t;
  port.value->set_type(t);
}

}  // namespace

void open_input_sizes(Model& m, const std::vector<std::string>& specs) {
  struct Opened {
    Port* port;
    std::vector<Dim> twice, named;
  };
  std::vector<Opened> all;
  std::string names;
  for (const std::string& text : specs) {
    const InputSpec spec = parse_spec(m, text);
    Port& port = input_named(m.graph(), spec.name);
    const Type* has = port.declared != nullptr ? port.declared : port.value->type();
    if (has == nullptr || !has->is_tensor() || !has->ranked() || has->rank() != spec.type->rank()) continue;
    Opened o{&port, {has->dims().begin(), has->dims().end()}, {has->dims().begin(), has->dims().end()}};
    bool opens = false;
    for (size_t i = 0; i < has->rank(); ++i) {
      const Dim now = spec.type->dim(i);
      if (!has->dim(i).is_int() || now.is_int() || m.dims().symbol_name(now).empty()) continue;
      opens = true;
      o.twice[i] = Dim::of(2 * has->dim(i).value());
      o.named[i] = now;
    }
    if (!opens) continue;
    names += (names.empty() ? "" : ", ") + spec.name;
    all.push_back(std::move(o));
  }
  if (all.empty()) return;
  forget_sizes(m);
  for (const Opened& o : all) set_type(m, *o.port, o.twice);
  try {
    ValueFacts facts;
    infer_model(m, facts, /*tolerant=*/false);
  } catch (const Error& e) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the sizes of {} cannot be opened: at twice the size, {}", names, e.message()), e.notes())
        .with_note("help: export the model with these sizes open");
  }
  forget_sizes(m);
  for (const Opened& o : all) set_type(m, *o.port, o.named);
}

}  // namespace sardonyx
