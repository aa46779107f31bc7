// Which results may stay narrow: with axes of size 1 that their users broadcast.
#include "lower/jax_to_onnx/context.h"

#include <algorithm>

namespace sardonyx::jax_to_onnx {
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

bool Context::may_differ(const Value& jax, const Type* found, const Type* expected) {
  return broadcasts_to(found, expected) && may_stay_narrow(jax);
}

bool Context::may_stay_narrow(const Value& jax) const {
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

}  // namespace sardonyx::jax_to_onnx
