// Checks the types of a lowering's results against the equation.
#include "lower/jax_to_onnx/context.h"

#include <fmt/format.h>
#include <algorithm>

#include "ir/spelling.h"

namespace sardonyx {
namespace {

// Whether every axis of `narrow`, aligned to the right, is 1 or that of `full`.
bool broadcasts_to(const Type* narrow, const Type* full) {
  if (!narrow->is_tensor() || !narrow->ranked() || narrow->dtype() != full->dtype() || narrow->rank() > full->rank())
    return false;
  const auto aligned = full->dims().last(narrow->rank());
  return std::ranges::equal(narrow->dims(), aligned, [](Dim n, Dim f) { return n.is(1) || n == f; });
}

// Equations whose lowering may leave axes of size 1 for its users to broadcast: a reshape that adds leading
// ones; `and` with a broadcast true.
bool makes_narrow(const Node& n) {
  if (n.is("broadcast_in_dim") || n.is("iota")) return true;
  if (n.is("and") || n.is("or")) {
    return std::ranges::any_of(n.operands(), [](const Use& u) {
      return u.value != nullptr && u.value->def() != nullptr && u.value->def()->is("broadcast_in_dim");
    });
  }
  return n.is("reshape") && n.result()->type()->rank() > n.input(0)->type()->rank() && n.result()->type()->dim(0).is(1);
}

// A reshape or broadcast that only adds leading axes: a no-op on a narrow value.
bool puts_axes_in_front(const Node& n) {
  if (n.is_boundary() || (!n.is("broadcast_in_dim") && !n.is("reshape"))) return false;
  const Attr* order = n.attr("dimensions");
  if (order != nullptr && !order->is_none()) return false;
  auto from = n.input(0)->type()->dims(), to = n.result()->type()->dims();
  if (to.size() < from.size() || !std::ranges::equal(from, to.last(from.size()), [](Dim p, Dim q) { return p == q; }))
    return false;
  if (n.is("reshape") && to.size() == from.size()) return false;
  if (n.is("reshape")) return std::ranges::all_of(to.first(to.size() - from.size()), [](Dim d) { return d.is(1); });
  const Attr* places = n.attr("broadcast_dimensions");
  const auto* axes = places != nullptr ? places->get<Attr::Ints>() : nullptr;
  if (axes == nullptr || axes->size() != from.size()) return from.empty();
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != static_cast<int64_t>(to.size() - from.size() + i)) return false;
  }
  return true;
}

}  // namespace

void LoweringContext::check_new_nodes(const Node& eqn, const Graph& graph, const Node* last, std::string_view origin) {
  auto found = misspelling(graph, last);
  if (!found) return;
  throw Error(
      ErrorCode::kInvalidModel,
      fmt::format("the lowering of '{}' ({}) made a node that ONNX does not know: {}", eqn.op().name, origin, found->text),
      std::move(found->notes));
}

void LoweringContext::check_results(const Node& eqn, std::vector<Value*>& results, std::string_view origin, OnnxBuilder& b) {
  if (results.size() != eqn.num_results()) {
    throw Error(ErrorCode::kInternal, fmt::format("the lowering of '{}' ({}) returned {} results, but the equation has {}",
                                                  eqn.op().name, origin, results.size(), eqn.num_results()));
  }
  Types& types = b.types();
  for (size_t i = 0; i < results.size(); ++i) {
    const Type* expected = stored(import(eqn.result(i)->type()));
    Value* v = results[i];
    if (v == nullptr) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("the lowering of '{}' ({}) left result {} unbound", eqn.op().name, origin, i));
    }
    const Type* found = v->type();
    if (found == expected) continue;
    // Before meet(), which would take a 1 for a more precise B.
    if (found != nullptr && broadcasts_to(found, expected) && may_stay_narrow(*eqn.result(i))) continue;
    if (found == nullptr || types.meet(found, expected) != nullptr) {
      // Inference knew less than JAX.
      if (v->kind() != ValueKind::kInput) v->set_type(expected);
      continue;
    }
    // meet() returns null for a proven contradiction, and for two symbolic sizes that only JAX knows to be
    // equal.
    const auto differs = [&](size_t d) { return onnx_.dims().compare(found->dim(d), expected->dim(d)) == Compare::kDifferent; };
    bool symbolic_only =
        found->is_tensor() && found->ranked() && found->dtype() == expected->dtype() && found->rank() == expected->rank();
    for (size_t d = 0; symbolic_only && d < found->rank(); ++d) symbolic_only = !differs(d);
    if (symbolic_only) {
      if (v->kind() != ValueKind::kInput) v->set_type(expected);
      continue;
    }
    // Not kInternal: a saved program may say anything, and the lowering may be a plugin's.
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the lowering of '{}' ({}) returned {} as result {}, but the equation says {}", eqn.op().name,
                            origin, types.to_string(found), i, types.to_string(expected)));
  }
}

bool LoweringContext::may_stay_narrow(const Value& jax) const {
  if (!jax.has_uses()) return false;
  for (const Use& u : jax.uses()) {
    const Node& user = *u.owner;
    if (puts_axes_in_front(user)) {
      if (!may_stay_narrow(*user.result())) return false;
      continue;
    }
    if (user.is_boundary() || !user.has(Trait::kElementwise) || user.num_results() != 1) return false;
    const auto full = [&](const Use& other) {
      // Another broadcast may stay narrow as well, and two narrow operands make a narrow result.
      const Value* v = other.value;
      return v != nullptr && v != &jax && !(v->def() != nullptr && makes_narrow(*v->def())) &&
             std::ranges::equal(v->type()->dims(), user.result()->type()->dims());
    };
    if (std::ranges::none_of(user.operands(), full)) return false;
  }
  return true;
}

}  // namespace sardonyx
