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

// As the command line has it: "x:1,3,B".
std::string text_of(const InputShape& shape) {
  std::vector<std::string> axes;
  for (const AxisSize& axis : shape.sizes) {
    const auto* number = std::get_if<int64_t>(&axis);
    const auto* name = std::get_if<std::string>(&axis);
    axes.push_back(number != nullptr ? fmt::format("{}", *number) : name != nullptr ? *name : "?");
  }
  return fmt::format("{}:{}", shape.input, fmt::join(axes, ","));
}

// Unknown where the model's own size stays.
std::vector<Dim> dims_of(Model& m, const InputShape& shape) {
  std::vector<Dim> dims;
  for (const AxisSize& axis : shape.sizes) {
    if (const auto* number = std::get_if<int64_t>(&axis)) {
      if (*number < 0)
        refuse(fmt::format("the input shape {} has a negative size", text_of(shape)), "expected sizes from 0, or names");
      dims.push_back(Dim::of(*number));
    } else {
      const auto* name = std::get_if<std::string>(&axis);
      dims.push_back(name != nullptr ? m.dims().parse(*name) : m.dims().fresh_unknown());
    }
  }
  return dims;
}

// The sizes that symbols of the model get.
using FixedSizes = std::map<std::string, Dim, std::less<>>;

// Matches the declared type of the input with the given shape, whose sizes are `wanted`: refuses
// contradictions and adds the sizes that symbols get.
void match_shapes(const Type* has, const InputShape& shape, std::span<const Dim> wanted, Model& m, FixedSizes& fixed) {
  if (has == nullptr || !has->is_tensor()) return;
  const Dims& dims = m.dims();
  if (shape.dtype != DType::kUndefined && has->dtype() != shape.dtype)
    refuse(fmt::format("input '{}' is {}, not {}", shape.input, to_string(has->dtype()), to_string(shape.dtype)),
           "the element type cannot be changed");
  if (!has->ranked()) return;
  if (has->rank() != wanted.size())
    refuse(fmt::format("input '{}' has {} axes, '{}' has {}", shape.input, has->rank(), text_of(shape), wanted.size()),
           fmt::format("the model says {}", m.types().to_string(has)));
  for (size_t i = 0; i < has->rank(); ++i) {
    const Dim old = has->dim(i), now = wanted[i];
    if (now.is_unknown()) continue;
    if (old.is_int() && !(old == now))
      refuse(fmt::format("axis {} of input '{}' is {}, not {}", i, shape.input, dims.to_string(old), dims.to_string(now)),
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

void fix_input_shapes(Model& m, const std::vector<InputShape>& shapes) {
  if (shapes.empty()) return;
  FixedSizes fixed;
  std::vector<std::pair<Port*, const Type*>> wanted;
  for (const InputShape& shape : shapes) {
    Port& port = input_named(m.graph(), shape.input);
    std::vector<Dim> sizes = dims_of(m, shape);
    const Type* has = port.declared;
    match_shapes(has, shape, sizes, m, fixed);
    for (size_t i = 0; has != nullptr && has->is_tensor() && has->ranked() && i < sizes.size(); ++i) {
      if (sizes[i].is_unknown()) sizes[i] = has->dim(i);
    }
    wanted.emplace_back(&port, m.types().tensor(has != nullptr ? has->dtype() : shape.dtype, sizes));
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

void open_input_sizes(Model& m, const std::vector<InputShape>& shapes) {
  struct Opened {
    Port* port;
    std::vector<Dim> twice, named;
  };
  std::vector<Opened> all;
  std::string names;
  for (const InputShape& shape : shapes) {
    const std::vector<Dim> wanted = dims_of(m, shape);
    Port& port = input_named(m.graph(), shape.input);
    const Type* has = port.declared != nullptr ? port.declared : port.value->type();
    if (has == nullptr || !has->is_tensor() || !has->ranked() || has->rank() != wanted.size()) continue;
    Opened o{&port, {has->dims().begin(), has->dims().end()}, {has->dims().begin(), has->dims().end()}};
    bool opens = false;
    for (size_t i = 0; i < has->rank(); ++i) {
      const Dim now = wanted[i];
      if (!has->dim(i).is_int() || now.is_int() || m.dims().symbol_name(now).empty()) continue;
      opens = true;
      o.twice[i] = Dim::of(2 * has->dim(i).value());
      o.named[i] = now;
    }
    if (!opens) continue;
    names += (names.empty() ? "" : ", ") + shape.input;
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
