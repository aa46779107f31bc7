#include "io/mlir/module_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "io/mlir/operations.h"
#include "support/system/interrupt.h"

namespace sardonyx::mlir {
namespace {

constexpr size_t kMostNameBytes = 1024;
constexpr size_t kMostRank = 64;

std::string default_name(size_t index) { return fmt::format("arg{}", index); }

[[noreturn]] void invalid(std::string message) { throw Error(ErrorCode::kInvalidModel, std::move(message)); }

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 = 0

// The name stack of an operation and its primitive: "jit(f)/jit(main)/layer/add" is (layer, add). Leading
// calls of jitted functions say nothing about the module that they call.
std::pair<std::string, std::string> scope_and_primitive(std::string_view name) {
  const size_t slash = name.rfind('/');
  std::string_view scope = slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
  while (scope.starts_with("jit(")) {
    const size_t end = scope.find('/');
    scope = end == std::string_view::npos ? std::string_view() : scope.substr(end + 1);
  }
  return {std::string(scope), std::string(name.substr(slash + 1))};
}

void check_count(std::string_view op, std::string_view what, size_t found, int min, int max) {
  if (found >= static_cast<size_t>(min) && (max < 0 || found <= static_cast<size_t>(max))) return;
  const std::string expected = min == max ? std::to_string(min)
                               : max < 0  ? fmt::format("at least {}", min)
                                          : fmt::format("{} to {}", min, max);
  invalid(fmt::format("{} takes {} {}, found {}", op, expected, what, found));
}

// A hint of sharding, or the cast between types of VHLO and builtin types around it, changes no value.
bool is_identity(const Draft& draft) {
  if (draft.name != "sdy.sharding_constraint" && draft.name != "builtin.unrealized_conversion_cast") return false;
  return draft.operands.size() == 1 && draft.results.size() == 1 && fits(draft.operands[0]->type(), draft.results[0]);
}

}  // namespace

Location file_location(std::string file, uint64_t line) {
  if (file.size() > kMostNameBytes) file.erase(0, file.size() - kMostNameBytes);
  return {.file = std::move(file), .line = static_cast<int>(std::min<uint64_t>(line, INT32_MAX))};
}

Location named_location(std::string name, const Location& inner) {
  Location out = inner;
  if (!inner.name.empty() && inner.function.empty()) out.function = inner.name;
  name.resize(std::min(name.size(), kMostNameBytes));
  out.name = std::move(name);
  out.is_bare = inner == Location();
  return out;
}

Location call_location(const Location& callee, const Location& caller) {
  Location out = callee.file.empty() ? caller : callee;
  if (out.function.empty()) out.function = out.name;
  out.name.clear();
  out.is_bare = false;
  return out;
}

Location fused_location(std::span<const Location> parts) {
  Location out;
  for (const Location& part : parts) {
    if (out.name.empty()) out.name = part.name;
    if (out.file.empty() && !part.file.empty()) out.file = part.file, out.line = part.line, out.function = part.function;
  }
  return out;
}

std::vector<PortDraft> port_drafts(const Attr& list) {
  std::vector<PortDraft> drafts;
  const auto* items = list.get<AttrList>();
  if (items == nullptr) return drafts;
  for (const Attr& item : *items) {
    PortDraft& draft = drafts.emplace_back();
    const auto* dict = item.get<AttrDict>();
    if (dict == nullptr) continue;
    for (const auto& [name, value] : *dict) draft.attributes.emplace_back(name, value);
  }
  return drafts;
}

uint32_t ModuleBuilder::add_location(Location location) {
  locations_.push_back(std::move(location));
  return static_cast<uint32_t>(locations_.size() - 1);
}

uint32_t ModuleBuilder::provenance(uint32_t index, const Op& op) {
  const Location& at = locations_[index];
  if (at == Location()) return 0;
  const auto [known, fresh] = provenances_.try_emplace((uint64_t{index} << 32) | op.id, 0);
  if (!fresh) return known->second;
  auto [scope, primitive] = scope_and_primitive(at.name);
  Source source{.file = std::string(base_name(at.file)),
                .line = at.line,
                .function = at.function,
                .scope = std::move(scope),
                .primitive = primitive.empty() ? std::string(op.name) : std::move(primitive),
                .lowering = {},
                .stack = {}};
  return known->second = model_.add_provenance({.sources = {std::move(source)}, .source_count = 1, .rules = {}});
}

const Type* ModuleBuilder::with_sizes(const Type* type) { return model_.types().freshen(type); }

Value* ModuleBuilder::add_input(Graph& graph, const Type* type) { return graph.add_input({}, with_sizes(type)); }

Results ModuleBuilder::add_constant(Graph& graph, const Draft& draft) {
  const auto value = std::ranges::find(draft.attributes, "value", &NamedAttr::name);
  const TensorPtr* payload = value == draft.attributes.end() ? nullptr : value->value.get<TensorPtr>();
  if (payload == nullptr) invalid("a constant needs the attribute 'value' with its elements");
  if (draft.results.size() != 1) invalid(fmt::format("a constant has 1 result, found {}", draft.results.size()));
  Value* v = graph.add_constant(*payload);
  if (!fits(v->type(), draft.results[0])) {
    const Types& types = model_.types();
    invalid(
        fmt::format("a constant of {} cannot have the type {}", types.to_string(v->type()), types.to_string(draft.results[0])));
  }
  return {v, 1};
}

Results ModuleBuilder::add(Graph& graph, Draft& draft) {
  check_interrupt();
  if (draft.name == "stablehlo.constant" || draft.name == "chlo.constant") return add_constant(graph, draft);
  if (is_identity(draft)) return {draft.operands[0], 1};
  const size_t dot = draft.name.find('.');
  if (dot == std::string_view::npos) invalid(fmt::format("'{}' is no operation: it names no dialect", draft.name));
  const std::string_view dialect = draft.name.substr(0, dot);
  const Op& op = model_.op(dialect == "stablehlo" ? std::string_view() : dialect, draft.name.substr(dot + 1));
  if (op.known) {
    check_count(draft.name, "operands", draft.operands.size(), op.min_inputs, op.max_inputs);
    check_count(draft.name, "results", draft.results.size(), op.min_outputs, op.max_outputs);
  }
  const Operation* row = find_operation(draft.name);
  if (row != nullptr) {
    const auto bodies = static_cast<int>(row->bodies.size());
    check_count(draft.name, "regions", draft.bodies.size(), row->body_list ? 0 : bodies, row->body_list ? -1 : bodies);
  }
  AttrInit attributes = model_attributes(draft.name, std::move(draft.attributes), draft.operands);
  Node& n = model_.new_node(op, draft.operands, draft.results.size(),
                            attributes.empty() ? nullptr : model_.attrs(std::move(attributes)));
  n.set_unchecked(false);
  n.set_provenance(provenance(draft.location, op));
  for (size_t i = 0; i < draft.results.size(); ++i) n.result(i)->set_type(with_sizes(draft.results[i]));
  graph.append(n);
  for (size_t i = 0; i < draft.bodies.size(); ++i) {
    const bool named = row != nullptr && !row->bodies.empty();
    n.add_body(named ? row->bodies[std::min(i, row->bodies.size() - 1)] : "body", *draft.bodies[i]);
  }
  if (draft.name == "func.call") calls_.push_back(&n);
  return {draft.results.empty() ? nullptr : n.result(0), draft.results.size()};
}

void ModuleBuilder::add_function(std::string name, bool is_public, Graph& graph, std::span<const PortDraft> inputs,
                                 std::span<const PortDraft> results) {
  const auto label = [this](Port& port, const PortDraft& draft, std::string_view chosen) {
    port.name = model_.name(chosen);
    for (const NamedAttr& a : draft.attributes) {
      const auto* text = a.value.get<std::string>();
      if (text != nullptr && !is_dropped_attribute(a.name)) port.metadata.emplace_back(a.name, *text);
    }
  };
  if (inputs.size() > graph.inputs().size() || results.size() > graph.outputs().size()) {
    invalid(fmt::format("function '{}' has {} arguments and {} results, and says more of them", name, graph.inputs().size(),
                        graph.outputs().size()));
  }
  static const PortDraft kNothing;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    label(graph.input_port(i), i < inputs.size() ? inputs[i] : kNothing, default_name(i));
    graph.input(i)->set_name(graph.inputs()[i].name);
  }
  InputNames names(graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].name.empty()) names.set(i, inputs[i].name);
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    label(graph.output_port(i), i < results.size() ? results[i] : kNothing,
          graph.outputs().size() == 1 ? "result" : fmt::format("result{}", i));
  }
  functions_.push_back({std::move(name), is_public, &graph});
}

void ModuleBuilder::finish() {
  if (functions_.empty()) invalid("the module has no function");
  auto entry = std::ranges::find(functions_, "main", &FunctionDraft::name);
  if (entry == functions_.end()) entry = std::ranges::find(functions_, true, &FunctionDraft::is_public);
  if (entry == functions_.end()) entry = functions_.begin();
  std::rotate(functions_.begin(), entry, entry + 1);
  std::unordered_map<std::string_view, const Graph*> by_name;
  for (const FunctionDraft& f : functions_) {
    if (!by_name.emplace(f.name, f.graph).second) invalid(fmt::format("two functions are called '{}'", f.name));
    model_.add_function(f.name, *f.graph);
    f.graph->set_name(model_.name(f.name));
  }
  if (!module_name_.empty()) functions_[0].graph->set_name(model_.name(module_name_));
  for (const Node* call : calls_) {
    const std::string callee = call->attr_string("callee", {});
    const auto at = by_name.find(callee);
    if (at == by_name.end()) invalid(fmt::format("a call of '{}', which the module does not have", callee));
    check_call(*call, *at->second);
  }
  take_names(*functions_[0].graph);
}

void ModuleBuilder::check_call(const Node& call, const Graph& callee) const {
  const std::string name = call.attr_string("callee", {});
  if (callee.inputs().size() != call.num_inputs() || callee.outputs().size() != call.num_results()) {
    invalid(fmt::format("a call of '{}' with {} operands and {} results, which has {} and {}", name, call.num_inputs(),
                        call.num_results(), callee.inputs().size(), callee.outputs().size()));
  }
  const Types& types = model_.types();
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const Type *found = call.input(i)->type(), *declared = callee.input(i)->type();
    if (fits(found, declared)) continue;
    invalid(fmt::format("operand {} of a call of '{}' is {}, which takes {}", i, name, types.to_string(found),
                        types.to_string(declared)));
  }
  for (size_t i = 0; i < call.num_results(); ++i) {
    const Type *found = call.result(i)->type(), *returned = callee.output(i)->type();
    if (fits(found, returned)) continue;
    invalid(fmt::format("result {} of a call of '{}' is {}, which returns {}", i, name, types.to_string(found),
                        types.to_string(returned)));
  }
}

// What jax.export writes checks sizes in its entry and calls the function with its arguments' names.
void ModuleBuilder::take_names(Graph& entry) const {
  InputNames names(entry);
  for (const Node* call : calls_) {
    if (call->graph() != &entry) continue;
    Graph& callee = model_.find_function({}, call->attr_string("callee", {}))->graph();
    const InputNames inner(callee);
    for (size_t i = 0; i < call->num_inputs(); ++i) {
      const Value* v = call->input(i);
      if (v->kind() != ValueKind::kInput || v->graph() != &entry) continue;
      if (names.is_default(v->index()) && !inner.is_default(i)) names.set(v->index(), callee.inputs()[i].name);
    }
  }
}

InputNames::InputNames(Graph& graph) : graph_(graph) {
  for (const Port& p : graph.inputs()) used_.emplace(p.name.view());
}

bool InputNames::is_default(size_t index) const { return graph_.inputs()[index].name.view() == default_name(index); }

void InputNames::set(size_t index, std::string_view name) {
  if (!used_.emplace(name).second) return;
  Port& port = graph_.input_port(index);
  used_.erase(std::string(port.name.view()));
  port.name = graph_.model().name(name);
  port.value->set_name(port.name);
}

void check_rank(size_t rank) {
  if (rank > kMostRank)
    throw Error(ErrorCode::kLimit, fmt::format("a tensor of rank {}, and {} is the limit", rank, kMostRank));
}

bool fits(const Type* found, const Type* declared) {
  if (found == declared) return true;
  if (found->kind() != declared->kind() || found->dtype() != declared->dtype()) return false;
  if (!found->ranked() || !declared->ranked()) return true;
  if (found->rank() != declared->rank()) return false;
  for (size_t i = 0; i < found->rank(); ++i) {
    const Dim a = found->dim(i), b = declared->dim(i);
    if (a.is_int() && b.is_int() && a.value() != b.value()) return false;
  }
  return true;
}

}  // namespace sardonyx::mlir
