#include "native/coreml/edits.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <utility>

#include "ir/tensor/tensor_view.h"
#include "native/ir/store.h"

namespace sardonyx::python {
namespace {

// Whether the op is still in its block, with the same type and value.
bool stays(const ImportedOp& o) {
  const Node& n = *o.node;
  const Tensor* payload = n.extra() != nullptr ? n.extra()->payload.get() : nullptr;
  return n.alive() && n.graph() == o.graph && &n.op() == o.op && payload == o.payload;
}

}  // namespace

Graph& EditCollector::graph_of(const std::string& name) {
  Function* f = p_.model->find_function("", name);
  if (f == nullptr) throw Error(ErrorCode::kInternal, fmt::format("function '{}' is gone", name));
  return f->graph();
}

std::optional<BlockEdit> EditCollector::function(const std::string& name) {
  Graph& g = graph_of(name);
  return p_.blocks.contains(&g) ? edit_block(g) : std::nullopt;
}

std::vector<std::string> EditCollector::new_functions() const {
  std::vector<std::string> all;
  for (const auto& f : p_.model->functions()) {
    if (!p_.blocks.contains(&f->graph())) all.push_back(f->name);
  }
  return all;
}

FunctionEdit EditCollector::new_function(const std::string& name) {
  Graph& g = graph_of(name);
  FunctionEdit made{.opset = g.function()->mil_opset, .block = new_block(g)};
  for (size_t i = 0; i < g.inputs().size(); ++i)
    made.block.inputs[i].type = p_.model->types().to_string(g.inputs()[i].value->type());
  return made;
}

uint32_t EditCollector::number(Value* v) {
  if (value_numbers_.empty()) {
    for (size_t i = 0; i < p_.values.size(); ++i) value_numbers_.emplace(p_.values[i], static_cast<uint32_t>(i));
  }
  const auto [at, is_new] = value_numbers_.try_emplace(v, static_cast<uint32_t>(p_.values.size()));
  if (is_new) {
    p_.values.push_back(v);
    p_.variables.push_back(nb::none());
  }
  return at->second;
}

// The number of the op that n was read from; none when n is new or changed its type. An op that took over the
// blocks of another, such as a loop with fewer variables, counts as that op.
std::optional<uint32_t> EditCollector::imported(Node& n) {
  if (op_numbers_.empty()) {
    for (size_t i = 0; i < p_.ops.size(); ++i) op_numbers_.emplace(p_.ops[i].node, static_cast<uint32_t>(i));
  }
  if (!n.bodies().empty() && !op_numbers_.contains(&n)) {
    const auto block = p_.blocks.find(n.bodies()[0].graph);
    if (block != p_.blocks.end() && p_.ops[block->second.owner].op == &n.op()) {
      ImportedOp& o = p_.ops[block->second.owner];
      o.node = &n;
      o.rebuilt = true;
      op_numbers_[&n] = block->second.owner;
    }
  }
  const auto at = op_numbers_.find(&n);
  return at != op_numbers_.end() && stays(p_.ops[at->second]) ? std::optional(at->second) : std::nullopt;
}

// Whether the op still has the operands and names it was read with.
bool EditCollector::is_unchanged(const ImportedOp& o) const {
  const Node& n = *o.node;
  if (o.rebuilt || n.name() != o.name) return false;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    if (n.input(i) != p_.operands[o.first_operand + i]) return false;
  }
  for (size_t i = 0; i < n.num_results(); ++i) {
    if (n.result(i)->name() != p_.value_names[o.first_result + i]) return false;
  }
  return true;
}

bool EditCollector::has_new_type(const Value& input) const {
  const auto before = p_.input_types.find(&input);
  return before != p_.input_types.end() && before->second != input.type();
}

bool EditCollector::has_new_types(Node& n) {
  for (Value& v : n.results()) {
    const uint32_t at = number(&v);
    if (at < p_.types_before.size() && p_.types_before[at] != v.type()) return true;
  }
  return false;
}

bool EditCollector::has_same_results(const Graph& g, const ImportedBlock& block) const {
  const auto outputs = g.outputs();
  return std::ranges::equal(outputs, block.outputs, [](const Port& now, const std::pair<Name, Value*>& before) {
    return now.name == before.first && now.use->value == before.second && before.second->name() == now.name;
  });
}

bool EditCollector::has_same_inputs(const Graph& g, const ImportedBlock& block) const {
  return std::ranges::equal(g.inputs(), block.inputs, [&](const Port& now, const std::pair<Name, const Type*>& before) {
    return now.name == before.first && !has_new_type(*now.value);
  });
}

std::optional<BlockEdit> EditCollector::edit_block(Graph& g) {
  const auto found = p_.blocks.find(&g);
  if (found == p_.blocks.end()) throw Error(ErrorCode::kInternal, "a block is new");
  const ImportedBlock& block = found->second;
  std::vector<std::pair<Node*, std::optional<uint32_t>>> now;
  bool moved = false;
  uint32_t last = 0;
  for (Node& n : g.nodes()) {
    const std::optional<uint32_t> op = imported(n);
    if (op) moved |= *op < std::exchange(last, *op);
    now.emplace_back(&n, op);
  }
  std::vector<std::optional<uint32_t>> next(now.size());  // the first imported op at or after this position
  for (size_t i = now.size(); i-- > 0;)
    next[i] = now[i].second ? now[i].second : i + 1 < now.size() ? next[i + 1] : std::nullopt;
  Edits edits;
  std::vector<int64_t> order;
  const auto add_new_to_order = [&](size_t first) {
    for (size_t k = first; k < edits.ops.size(); ++k) {
      if (!edits.ops[k].op) order.push_back(-1 - static_cast<int64_t>(k));
    }
  };
  for (size_t i = 0; i < now.size(); ++i) {
    const auto [n, op] = now[i];
    edits.before = moved ? std::nullopt : next[i];
    const size_t first = edits.ops.size();
    if (!op) {
      add_op(*n, op, nb::list(), edits);
    } else {
      nb::list blocks;
      bool inside = false;
      for (const Body& b : n->bodies()) {
        std::optional<BlockEdit> body = edit_block(*b.graph);
        inside |= body.has_value();
        blocks.append(body ? nb::cast(std::move(*body)) : nb::none());
      }
      if (inside || !is_unchanged(p_.ops[*op]) || has_new_types(*n)) add_op(*n, op, std::move(blocks), edits);
    }
    add_new_to_order(first);
    if (op) order.push_back(*op);
  }
  edits.before.reset();
  BlockEdit edit;
  for (size_t i = block.first; i < block.last; ++i) {
    if (p_.ops[i].graph == &g && !stays(p_.ops[i])) edit.removed.append(i);
  }
  const size_t first = edits.ops.size();
  if (!has_same_results(g, block)) edit.results = results_of(g, edits);
  add_new_to_order(first);  // constants that are only results come last
  if (edits.ops.empty() && nb::len(edit.removed) == 0 && !edit.results && has_same_inputs(g, block) && !moved)
    return std::nullopt;
  edit.ops = std::move(edits.ops);
  if (moved) edit.order = std::move(order);
  for (const Port& p : g.inputs())
    edit.inputs.push_back(
        {.name = std::string(p.name.view()), .value = number(p.value), .has_new_type = has_new_type(*p.value)});
  return edit;
}

BlockEdit EditCollector::new_block(Graph& g) {
  Edits edits;
  BlockEdit made;
  for (const Port& p : g.inputs()) made.inputs.push_back({.name = std::string(p.name.view()), .value = number(p.value)});
  for (Node& n : g.nodes()) add_op(n, std::nullopt, nb::list(), edits);
  made.results = results_of(g, edits);
  made.ops = std::move(edits.ops);
  return made;
}

std::vector<ResultEdit> EditCollector::results_of(Graph& g, Edits& edits) {
  std::vector<ResultEdit> results;
  for (const Port& p : g.outputs()) {
    add_constant(p.use->value, g.boundary(), nullptr, edits);
    results.push_back({.name = std::string(p.name.view()), .value = number(p.use->value)});
  }
  return results;
}

nb::object EditCollector::constant_value(const TensorPtr& t) const {
  if (const auto variable = p_.variable_of.find(t.get()); variable != p_.variable_of.end()) return nb::int_(variable->second);
  const TensorView* view = view_of(t);
  const Tensor& storage = view != nullptr ? *view->storage : *t;
  if (storage.is_deferred() || storage.is_splat()) return wrap_tensor(t);
  const auto array = p_.arrays.find(storage.stored_bytes().data());
  if (array == p_.arrays.end() || array->second.dtype != t->dtype() || array->second.size != storage.byte_size())
    return wrap_tensor(t);
  nb::list shape, strides;
  for (size_t d = 0; d < t->rank(); ++d) shape.append(t->shape()[d]);
  for (int64_t s : view != nullptr ? view->strides : dense_strides(t->shape())) strides.append(s);
  return nb::cast(ArrayView{array->second.array, nb::tuple(shape), strides});
}

// Inserts a constant that a pass made before its first user.
void EditCollector::add_constant(Value* v, const Node& user, const Slot* slot, Edits& edits) {
  if (v == nullptr || v->kind() != ValueKind::kConstant) return;
  const size_t known = p_.values.size();
  const uint32_t at = number(v);
  if (at < known) return;
  const std::string_view base = user.name().empty() ? user.op().name : user.name().view();
  OpEdit edit{.constant = constant_value(v->constant()),
              .name = !v->name().empty() ? std::string(v->name().view())
                                         : fmt::format("{}_{}_0", base, slot != nullptr ? slot->name : "operand"),
              .sources = sources(user),
              .before = edits.before};
  edit.results.append(at);
  edit.result_names.append(edit.name);
  edits.ops.push_back(std::move(edit));
}

nb::list EditCollector::sources(const Node& n) const {
  nb::list from;
  for (const Source& s : p_.model->provenance(n.provenance()).sources) {
    if (s.line > 0) from.append(s.line - 1);
  }
  return from;
}

std::vector<OperandEdit> EditCollector::operands_of(Node& n, Edits& edits) {
  std::vector<OperandEdit> operands;
  for (size_t i = 0; i < n.num_inputs();) {
    const Slot* slot = slot_of(n.op(), i, n.num_inputs());
    const bool list = slot != nullptr && slot->arity == Arity::kVariadic;
    size_t end = i + 1;
    while (slot != nullptr && end < n.num_inputs()) {
      const Slot* next = slot_of(n.op(), end, n.num_inputs());
      if (list ? next != slot : n.op().known || next->name != slot->name) break;
      ++end;
    }
    if (n.input(i) != nullptr) {
      OperandEdit& operand = operands.emplace_back();
      if (slot != nullptr) operand.slot = slot->name;
      operand.is_list = list;
      for (size_t k = i; k < end; ++k) {
        add_constant(n.input(k), n, slot, edits);
        operand.values.append(number(n.input(k)));
      }
    }
    i = end;
  }
  return operands;
}

void EditCollector::add_op(Node& n, std::optional<uint32_t> known, nb::list blocks, Edits& edits) {
  OpEdit edit{
      .op = known, .type = std::string(n.op().name), .name = std::string(n.name().view()), .operands = operands_of(n, edits)};
  for (Value& v : n.results()) {
    edit.results.append(number(&v));
    edit.result_names.append(v.name().view());
  }
  if (!known) {
    for (const Body& b : n.bodies()) blocks.append(nb::cast(new_block(*b.graph)));
    if (n.has(Trait::kConstant) && n.result()->is_constant()) {
      edit.type.clear();
      edit.constant = constant_value(n.result()->constant());
    }
  }
  edit.blocks = std::move(blocks);
  edit.sources = sources(n);
  edit.before = edits.before;
  edit.has_new_types = has_new_types(n);
  edits.ops.push_back(std::move(edit));
}

}  // namespace sardonyx::python
