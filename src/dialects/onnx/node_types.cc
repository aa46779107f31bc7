#include "dialects/onnx/node_types.h"

#include <algorithm>

namespace sardonyx::onnx {
namespace {

// Calls `note(variable, dtype)` for each tensor operand and result whose slot is (or is not) homogeneous.
template <class F>
void for_each_type(const Node& n, const Op& op, bool homogeneous, const F& note) {
  const auto visit = [&](const Slot* slot, const Value* v) {
    if (slot == nullptr || slot->type_var.empty() || slot->homogeneous != homogeneous || v == nullptr) return;
    if (v->type() != nullptr && v->type()->is_tensor()) note(slot->type_var, v->dtype());
  };
  for (size_t i = 0; i < n.num_inputs(); ++i) visit(slot_of(op, i, n.num_inputs()), n.input(i));
  for (size_t i = 0; i < n.num_results(); ++i) visit(result_slot(op, i), n.result(i));
}

}  // namespace

const Slot* result_slot(const Op& op, size_t i) { return &op.outputs[std::min(i, op.outputs.size() - 1)]; }

TypesByVariable types_by_variable(const Node& n, const Op& op) {
  TypesByVariable types;
  for_each_type(n, op, /*homogeneous=*/true, [&](std::string_view variable, DType t) { types.emplace(variable, t); });
  return types;
}

std::set<std::pair<std::string_view, DType>> own_types_of(const Node& n) {
  std::set<std::pair<std::string_view, DType>> types;
  for_each_type(n, n.op(), /*homogeneous=*/false, [&](std::string_view variable, DType t) { types.emplace(variable, t); });
  return types;
}

std::string to_string(const TypesByVariable& types) {
  std::string text;
  for (const auto& [variable, type] : types) {
    if (!text.empty()) text += ", ";
    text += to_string(type);
  }
  return text;
}

}  // namespace sardonyx::onnx
