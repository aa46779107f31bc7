#include "convert/run_inputs.h"

#include <fmt/format.h>

#include "sardonyx/error.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

}  // namespace

size_t input_number(const Graph& g, std::string_view name) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    names.push_back(g.inputs()[i].name.view());
    if (names.back() == name) return i;
  }
  const std::string_view meant = nearest(name, names);
  refuse(fmt::format("the model has no input '{}'", name),
         {meant.empty() ? fmt::format("it has: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant)});
}

std::optional<DType> input_dtype(const Graph& g, size_t i) {
  const Port& p = g.inputs()[i];
  const Type* t = p.declared != nullptr ? p.declared : p.value->type();
  if (t != nullptr && t->kind() == TypeKind::kState) t = t->element();
  return t == nullptr || t->dtype() == DType::kUndefined ? std::nullopt : std::optional(t->dtype());
}

std::vector<EvalValue> inputs_by_name(const Graph& g, const NamedTensors& given) {
  std::vector<EvalValue> inputs(g.inputs().size());
  for (const auto& [name, tensor] : given) {
    EvalValue& input = inputs[input_number(g, name)];
    if (!input.absent()) refuse(fmt::format("input '{}' is given twice", name));
    input = EvalValue(tensor);
  }
  return inputs;
}

}  // namespace sardonyx
