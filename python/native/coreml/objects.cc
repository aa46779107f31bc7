#include "native/coreml/objects.h"

namespace sardonyx::python {

bool place_operands(const Op& op, std::span<const std::pair<std::string_view, Value*>> given, std::vector<Value*>& operands) {
  const size_t slots = op.inputs.size();
  size_t single = slots;  // variadic operands come last
  while (single > 0 && op.inputs[single - 1].arity == Arity::kVariadic) --single;
  operands.assign(single, nullptr);
  for (const auto& [slot, v] : given) {
    size_t i = 0;
    while (i < slots && op.inputs[i].name != slot) ++i;
    if (i == slots) return false;
    if (i >= single) continue;
    if (operands[i] != nullptr) return false;
    operands[i] = v;
  }
  for (size_t i = single; i < slots; ++i) {
    for (const auto& [slot, v] : given) {
      if (op.inputs[i].name == slot) operands.push_back(v);
    }
  }
  if (op.max_inputs >= 0) {
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
  }
  return true;
}

}  // namespace sardonyx::python
