#include "passes/onnx/convert/widen.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "dialects/onnx/runtimes/runtimes.h"
#include "ir/tensor/tensor_transform.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kSmallBytes = 1024;  // convert constants up to this size at once

}  // namespace

std::optional<TypesByVariable> widened(const Op& op, const TypesByVariable& types,
                                       const std::function<uint64_t(std::string_view)>& allowed) {
  TypesByVariable wide = types;
  for (auto& [variable, type] : wide) {
    const uint64_t bits = allowed(variable);
    const auto has = [bits](DType t) { return static_cast<unsigned>(t) < 64 && (bits >> static_cast<unsigned>(t) & 1) != 0; };
    if (has(type)) continue;
    if (type == DType::kU64 && !is_modular(op.name)) return std::nullopt;  // i64 orders them differently
    const auto holds = holders(type);
    const auto better = std::ranges::find_if(holds, has);
    if (better == holds.end()) return std::nullopt;
    type = *better;
  }
  return wide;
}

void Widener::replace(Graph& g, Node& n, const Op& op, const TypesByVariable& from, const TypesByVariable& to) {
  Rewriter b(g, context_);
  b.set_insertion_point(&n);
  b.set_provenance(n.provenance());
  struct Change {
    DType from, to;
  };
  // Also works if the type of `v` is unknown: other slots with the same type variable determine it.
  const auto change_of = [&](const Slot* slot, const Value* v) -> std::optional<Change> {
    if (slot == nullptr || v == nullptr) return std::nullopt;
    const auto old = from.find(slot->type_var), now = to.find(slot->type_var);
    return old == from.end() || old->second == now->second ? std::nullopt : std::optional(Change{old->second, now->second});
  };
  std::vector<Value*> operands;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    const auto change = change_of(slot_of(op, i, n.num_inputs()), n.input(i));
    operands.push_back(change ? converted(b, *n.input(i), change->to) : n.input(i));
  }
  Node& made = b.make(op, operands, n.num_results(), attrs_of(n));
  made.set_name(n.name());
  for (size_t i = 0; i < n.num_results(); ++i) {
    Value* result = made.result(i);
    if (const auto change = change_of(result_slot(op, i), n.result(i)))
      result = b.op("Cast", {result}, {attr("to", static_cast<int64_t>(change->from))});
    result->set_type(n.result(i)->type());
    g.replace_uses(*n.result(i), *result);
  }
  context_.log.count(fmt::format("{} of {}", n.op().name, to_string(from)));
  g.erase(n);
}

Value* Widener::converted(Rewriter& b, Value& v, DType to) {
  Value*& known = converted_[{&v, to}];
  if (known != nullptr) return known;
  const TensorPtr& payload = v.constant();
  if (payload && payload->byte_size() <= kSmallBytes && can_cast(*payload, to)) return known = b.constant(casted(*payload, to));
  return known = b.op("Cast", {&v}, {attr("to", static_cast<int64_t>(to))});
}

}  // namespace sardonyx::onnx
