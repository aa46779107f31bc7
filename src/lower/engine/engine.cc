#include "lower/engine/engine.h"

#include <fmt/format.h>

#include "support/system/interrupt.h"

namespace sardonyx::lower {

std::string spelled(const Op& op) {
  if (op.domain.empty() || op.domain == "ai.onnx") return std::string(op.name);
  return fmt::format("{}::{}", op.domain, op.name);
}

void Engine::run() {
  const Graph& from = source_.graph();
  for (size_t i = 0; i < from.inputs().size(); ++i) add_input(from.inputs()[i], i);
  lower_nodes(from, main());
  report_refusals();
  main().set_provenance(0);
  for (size_t i = 0; i < from.outputs().size(); ++i) add_output(from.outputs()[i], *from.output(i), i);
}

void Engine::add_input(const Port& port, size_t /*i*/) {
  bind(*port.value, target_.graph().add_input(port.name.view(), stored_type(port.value->type())));
}

void Engine::add_output(const Port& port, Value& source, size_t /*i*/) {
  target_.graph().add_output(*value(source, main()), port.name.view(), stored_type(source.type()));
}

// ---------------------------------------------------------------------------------------------------------------------
// Types and values

Dim Engine::import(Dim d) {
  if (d.is_int()) return d;
  auto [at, inserted] = dims_.try_emplace(d.word());
  if (inserted) at->second = target_.dims().import(d, source_.dims());
  return at->second;
}

const Type* Engine::import(const Type* t) {
  if (t == nullptr) return nullptr;
  if (const auto at = types_.find(t); at != types_.end()) return at->second;
  if (!t->is_tensor() || !t->ranked()) return types_[t] = target_.types().import(t, source_.types());
  std::vector<Dim> dims;
  for (Dim d : t->dims()) dims.push_back(import(d));
  return types_[t] = target_.types().tensor(t->dtype(), dims);
}

Value* Engine::value(const Value& source, Builder& b) {
  if (Value* v = values_[source]) return v;
  SX_CHECK(source.is_constant(), fmt::format("the value '{}' is used before it was lowered", source.name().view()));
  return add_constant(source, b);
}

Value* Engine::add_constant(const Value& source, Builder& /*b*/) {
  Value* v = main().constant(source.constant(), source.name().view());
  bind(source, v);
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// The loop over nodes

void Engine::lower_nodes(const Graph& graph, Builder& b) {
  for (const Node& n : graph.nodes()) {
    check_interrupt();
    if (n.has(Trait::kConstant) && n.result()->is_constant()) continue;  // added at its first use
    lower_node(n, b);
  }
}

void Engine::lower_body(const Graph& graph, const Node& caller, Builder& b) {
  callers_.push_back(&caller);
  lower_nodes(graph, b);
  callers_.pop_back();
  mark(caller, b);
}

void Engine::begin_batch() {
  if (batches_.back() != target_.node_id_limit()) batches_.push_back(target_.node_id_limit());
}

void Engine::lower_node(const Node& n, Builder& b) {
  const auto from = lowering_origin(n.op());
  if (!from) return refuse(n, {});
  try {
    begin_batch();
    const std::vector<Value*> results = lower(n, b);
    begin_batch();
    bind_results(n, results, b);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kUnsupported) {
      std::string reason = e.message();
      for (const std::string& note : e.notes()) reason += "; " + note;
      return refuse(n, std::move(reason));
    }
    if (!refused_.empty()) return stand_in(n);  // its operands may be stand-ins
    const std::string by = *from == "builtin" ? "" : fmt::format(" ({})", *from);
    throw e.with_note(fmt::format("while lowering '{}' of {}{}", n.op().name, types_text(n), by)).with_note(source_text(n));
  }
}

void Engine::bind_results(const Node& n, std::span<Value* const> results, Builder& b) {
  const auto fail = [&](std::string what) {
    throw Error(ErrorCode::kInternal, fmt::format("the lowering of '{}' ({}) {}", n.op().name, *lowering_origin(n.op()), what));
  };
  if (results.size() > n.num_results())
    fail(fmt::format("returned {} results, but the {} has {}", results.size(), pair_.node, n.num_results()));
  for (size_t i = 0; i < n.num_results(); ++i) {
    Value* v = i < results.size() ? results[i] : nullptr;
    const Value& source = *n.result(i);
    if (v == nullptr && source.has_uses()) fail(fmt::format("left result {} unbound", i));
    if (v == nullptr) continue;
    const bool knows_more = settle_type(n, i, *v);
    bind(source, v);
    on_result(source, *v, b, knows_more);
  }
}

// Checks that v can be result i of the node, and gives it the more precise type. Returns whether that differs
// from the inferred type.
bool Engine::settle_type(const Node& n, size_t i, Value& v) {
  const Value& source = *n.result(i);
  const Type *expected = stored_type(source.type()), *found = v.type();
  if (expected == nullptr || found == expected) return false;
  // Before meet(), which would take a 1 for a more precise B.
  if (found != nullptr && may_differ(source, found, expected)) return false;
  const Type* both = found == nullptr ? expected : target_.types().meet(found, expected);
  if (both == nullptr && found->is_tensor() && found->ranked() && expected->ranked() && found->dtype() == expected->dtype() &&
      found->rank() == expected->rank()) {
    // meet() returns null for a proven contradiction, and for two symbolic sizes that only the source knows
    // to be equal.
    both = expected;
    for (size_t d = 0; d < found->rank(); ++d) {
      if (target_.dims().compare(found->dim(d), expected->dim(d)) == Compare::kDifferent) both = nullptr;
    }
  }
  // Not kInternal: a saved program may contain anything, and the lowering may be a plugin's.
  if (both == nullptr)
    throw Error(ErrorCode::kInvalidModel, fmt::format("the lowering of '{}' ({}) returned {} as result {}, but the {} says {}",
                                                      n.op().name, *lowering_origin(n.op()), target_.types().to_string(found),
                                                      i, pair_.node, target_.types().to_string(expected)));
  if (pair_.exact_types) both = expected;
  if (both == found || v.kind() == ValueKind::kInput) return false;
  v.set_type(both);
  return true;
}

}  // namespace sardonyx::lower
