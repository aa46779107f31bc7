//   main(x: f32[B,3])    =>    main(x: f32[B,3]), two(x: f32[2,3]), ...
//
// For each name in `function_name_to_materialization_map`, {"two": {"x": [2, 3]}}, copies the function
// `source_function_name` with these sizes. The copies share the weights. Sizes of other inputs stay symbolic,
// a size for an expression determines its one open symbol, and an existing function of that name is replaced.
// After coremltools' pass of this name, whose options these are.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "rewrite/pass.h"

namespace sardonyx::mil {
namespace {

using Sizes = std::map<std::string, int64_t, std::less<>>;

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, std::string(why),
              {R"(help: function_name_to_materialization_map={"name": {"input": [2, 3]}})"});
}

Dim with_sizes(Dims& dims, Dim d, const Sizes& sizes) {
  return dims.substitute(d, [&](std::string_view symbol) -> std::optional<Dim> {
    const auto at = sizes.find(symbol);
    return at != sizes.end() ? std::optional(Dim::of(at->second)) : std::nullopt;
  });
}

// The value of d's one symbol for which d equals `wanted`; nullopt if d is not linear in it.
std::optional<int64_t> solve(Dims& dims, Dim d, const std::string& symbol, int64_t wanted) {
  const auto at = [&](int64_t v) { return with_sizes(dims, d, {{symbol, v}}).value(); };
  try {
    const int64_t zero = at(0), step = at(1) - zero;
    if (step == 0) return std::nullopt;
    const int64_t v = (wanted - zero) / step;
    return v >= 0 && at(v) == wanted ? std::optional(v) : std::nullopt;
  } catch (const Error&) {  // d divides by the symbol
    return std::nullopt;
  }
}

// Sizes of expressions: they determine symbols that no size is equal to, and must agree with the others.
void read_expressions(const Function& source, const nlohmann::ordered_json& inputs, Sizes& sizes) {
  Dims& dims = source.model().dims();
  for (const Port& p : source.graph().inputs()) {
    const auto given = inputs.find(std::string(p.name.view()));
    if (given == inputs.end() || !p.value->ranked()) continue;
    for (size_t i = 0; i < p.value->type()->rank(); ++i) {
      const Dim expression = p.value->type()->dim(i);
      if (!expression.is_expr()) continue;
      const auto wanted = (*given)[i].get<int64_t>();
      Dim d = with_sizes(dims, expression, sizes);
      const auto open = dims.symbols(d);
      if (open.size() == 1) {
        if (const auto v = solve(dims, d, *open.begin(), wanted)) {
          sizes.emplace(*open.begin(), *v);
          d = Dim::of(wanted);
        }
      }
      if (d.is(wanted)) continue;
      const std::string is = dims.to_string(expression);
      if (!d.is_int())
        refuse(
            fmt::format("size {} of input '{}' is {}, and {} does not say what its symbols are", i, p.name.view(), is, wanted));
      refuse(fmt::format("size {} of input '{}' is {}, which is {} and not {}", i, p.name.view(), is, d.value(), wanted));
    }
  }
}

// The symbols that the given sizes of inputs determine.
Sizes sizes_of(const Function& source, const std::string& name, const nlohmann::ordered_json& inputs) {
  if (!inputs.is_object()) refuse(fmt::format("the entry for function '{}' is not a map of inputs", name));
  Sizes sizes;
  Dims& dims = source.model().dims();
  for (const Port& p : source.graph().inputs()) {
    const auto given = inputs.find(std::string(p.name.view()));
    if (given == inputs.end() || !p.value->ranked()) continue;
    const Type* t = p.value->type();
    if (!given->is_array() || given->size() != t->rank())
      refuse(fmt::format("input '{}' has {} sizes", p.name.view(), t->rank()));
    for (size_t i = 0; i < t->rank(); ++i) {
      if (!(*given)[i].is_number_integer()) refuse(fmt::format("size {} of input '{}' is not an integer", i, p.name.view()));
      const auto wanted = (*given)[i].get<int64_t>();
      const Dim d = t->dim(i);
      if (d.is_int() && d.value() != wanted)
        refuse(fmt::format("size {} of input '{}' is {} already, not {}", i, p.name.view(), d.value(), wanted));
      const std::string symbol(d.is_expr() ? dims.symbol_name(d) : std::string_view());
      if (symbol.empty()) continue;
      const auto at = sizes.emplace(symbol, wanted).first;
      if (at->second != wanted)
        throw Error(ErrorCode::kInvalidArgument,  // coremltools' text, which programs search for
                    fmt::format("Inconsistent symbol materialization in new function {}: symbol {} is to be materialized into "
                                "{} and {}. Please make sure input {} has compatible shape with others",
                                name, symbol, at->second, wanted, p.name.view()));
    }
  }
  for (const auto& [input, sizes_given] : inputs.items()) {
    const auto ports = source.graph().inputs();
    if (std::ranges::none_of(ports, [&](const Port& p) { return p.name.view() == input; }))
      refuse(fmt::format("function '{}' has no input '{}'", source.name, input));
  }
  read_expressions(source, inputs, sizes);
  return sizes;
}

const Type* fixed(Model& m, const Type* t, const Sizes& sizes) {
  if (t == nullptr || !t->is_tensor() || !t->ranked()) return t;
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  for (Dim& d : dims) {
    if (d.is_expr()) d = with_sizes(m.dims(), d, sizes);
  }
  return m.types().with_dims(t, dims);
}

void fix(Graph& top, const Sizes& sizes) {
  Model& m = top.model();
  for (Graph* g : graphs_in(top)) {
    for (size_t i = 0; i < g->inputs().size(); ++i) {
      Port& p = g->input_port(i);
      p.declared = fixed(m, p.declared, sizes);
      p.value->set_type(fixed(m, p.value->type(), sizes));
    }
    for (size_t i = 0; i < g->outputs().size(); ++i) {
      Port& p = g->output_port(i);
      p.declared = fixed(m, p.declared, sizes);
    }
    for (Node& n : g->nodes()) {
      for (Value& v : n.results()) v.set_type(fixed(m, v.type(), sizes));
    }
  }
}

bool materialize(PassContext& context) {
  Model& m = context.model;
  const std::string source_name = context.options().text("source_function_name", "main");
  const std::string map = context.options().text("function_name_to_materialization_map", "");
  if (map.empty()) refuse("'function_name_to_materialization_map' is missing");
  const auto wanted = nlohmann::ordered_json::parse(map, nullptr, /*allow_exceptions=*/false);
  if (!wanted.is_object()) refuse("'function_name_to_materialization_map' is not a map");
  const Function* source = m.find_function("", source_name);
  if (source == nullptr) {
    std::string names;
    for (const auto& f : m.functions()) names += (names.empty() ? "" : ", ") + f->name;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no function '{}'; the functions are {}", source_name, names));
  }
  std::vector<std::pair<std::string, Graph*>> made;
  for (const auto& [name, inputs] : wanted.items()) {
    const Sizes sizes = sizes_of(*source, name, inputs);
    Graph& copy = m.new_graph();
    clone_graph(source->graph(), copy);
    fix(copy, sizes);
    made.emplace_back(name, &copy);
  }
  const std::string opset = source->mil_opset;
  bool changed = false;
  for (const auto& [name, graph] : made) {
    if (Function* old = m.find_function("", name)) {
      if (equal_graphs(old->graph(), *graph)) {
        m.erase_function(m.add_function(name, *graph));
        continue;
      }
      m.add_function(name, *graph).mil_opset = opset;
      m.erase_function(*old);  // main can only be erased once its replacement exists
    } else {
      m.add_function(name, *graph).mil_opset = opset;
    }
    context.log.count("functions");
    changed = true;
  }
  if (changed) infer_model(m, context.facts, /*tolerant=*/true);
  return changed;
}

}  // namespace

Pass materialize_symbolic_shape_program() {
  return Pass::on_model(Numerics::kExact, materialize)
      .option("function_name_to_materialization_map", R"(functions to add: {"function": {"input": [2, 3]}})")
      .option("source_function_name", "the function to copy (main)");
}

}  // namespace sardonyx::mil
