#include "inspect/across_dialects.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>

#include "eval/elements.h"

namespace sardonyx {
namespace {

TensorPtr with_dtype(const Array& a, DType to, std::vector<int64_t> shape) {
  std::vector<std::byte> bytes(byte_size(to, static_cast<uint64_t>(a.size())));
  for (int64_t i = 0; i < a.size(); ++i) {
    if (is_float(to) || bit_width(to) < 8) {
      encode_element(to, bytes.data(), i, a.double_at(i));
      continue;
    }
    int64_t v = is_float(a.dtype()) ? static_cast<int64_t>(a.double_at(i)) : a.int_at(i);
    if (to == DType::kI32 && (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("an input holds {}, and Core ML's integers have 32 bits", v));
    if (to == DType::kBool) v = a.double_at(i) != 0;
    std::memcpy(bytes.data() + static_cast<size_t>(i) * (static_cast<size_t>(bit_width(to)) / 8), &v,
                static_cast<size_t>(bit_width(to)) / 8);
  }
  return Tensor::own(to, std::move(shape), std::move(bytes));
}

const Type* type_of(const Port& p) {
  const Type* t = p.declared != nullptr ? p.declared : p.value != nullptr ? p.value->type() : p.use->value->type();
  return t != nullptr && t->kind() == TypeKind::kState ? t->element() : t;
}

}  // namespace

EvalValue converted(const EvalValue& v, const Port& to) {
  const Array* a = v.array();
  const Type* t = type_of(to);
  const auto is_number = [](DType d) { return is_float(d) || is_integer(d) || d == DType::kBool; };
  if (a == nullptr || t == nullptr || !t->is_tensor() || t->dtype() == a->dtype() || !is_number(t->dtype()) ||
      !is_number(a->dtype()))
    return v;
  std::vector<double> values;
  for (int64_t i = 0; i < a->size(); ++i)
    values.push_back(is_float(a->dtype()) ? a->double_at(i) : static_cast<double>(a->int_at(i)));
  auto bytes = std::make_shared<std::vector<std::byte>>(byte_size(t->dtype(), values.size()));
  Array out(t->dtype(), a->shape(), bytes->data(), bytes);
  eval::store<double>(out, 0, a->size(), values.data());
  return out;
}

std::vector<EvalValue> inputs_of_lowered(const Model& coreml, std::span<const EvalValue> inputs) {
  std::vector<EvalValue> given;
  const auto ports = coreml.graph().inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].absent()) {
      given.emplace_back();
      continue;
    }
    const Array* a = inputs[i].array();
    if (a == nullptr || i >= ports.size()) throw Error(ErrorCode::kInvalidArgument, "inputs of a Core ML model are tensors");
    const Type* t = ports[i].value->type();
    if (t->kind() == TypeKind::kState) t = t->element();
    std::vector<int64_t> shape = a->shape();
    if (shape.empty() && t->ranked() && t->rank() == 1) shape = {1};
    given.emplace_back(a->dtype() == t->dtype() && shape == a->shape() ? inputs[i]
                                                                       : EvalValue(with_dtype(*a, t->dtype(), shape)));
  }
  return given;
}

std::vector<EvalValue> evaluate_lowered(const Model& onnx, const Model& coreml, std::span<const EvalValue> inputs) {
  std::vector<EvalValue> results = evaluate(coreml.graph(), inputs_of_lowered(coreml, inputs));
  const auto outputs = onnx.graph().outputs();
  for (size_t i = 0; i < results.size() && i < outputs.size(); ++i) {
    const Array* a = results[i].array();
    const DType d = outputs[i].use->value->dtype();
    if (a != nullptr && d != DType::kUndefined && a->dtype() != d) results[i] = EvalValue(with_dtype(*a, d, a->shape()));
  }
  return results;
}

}  // namespace sardonyx
