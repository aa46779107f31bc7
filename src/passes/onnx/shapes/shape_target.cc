#include "passes/onnx/shapes/shape_target.h"

#include <algorithm>
#include <cstring>

namespace sardonyx::onnx {

std::optional<std::vector<int64_t>> constant_target(const Value& x, const Type& y, Dims& dims) {
  std::vector<int64_t> target;
  bool open = false, copies_zero = false;
  size_t copies = 0;
  for (size_t i = 0; i < y.rank(); ++i) {
    const Dim d = y.dim(i);
    const bool same = x.ranked() && i < x.type()->rank() && x.type()->dim(i) == d;
    if (d.is_int() && d.value() > 0) {
      target.push_back(d.value());
    } else if (same) {
      target.push_back(0);
      ++copies;
      copies_zero |= dims.range(d).min.value_or(0) < 1;
    } else if (!d.is_int() && !open) {
      open = true;
      target.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  if (open && copies_zero) return std::nullopt;  // 0 = 0 * ? has no unique solution
  if (copies == 1 && !open && y.rank() > x.type()->rank()) std::replace(target.begin(), target.end(), int64_t{0}, int64_t{-1});
  return target;
}

TensorPtr int_tensor(DType dtype, bool scalar, std::span<const int64_t> values) {
  std::vector<std::byte> bytes(byte_size(dtype, values.size()));
  const size_t width = static_cast<size_t>(bit_width(dtype)) / 8;
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(bytes.data() + i * width, &values[i], width);
  std::vector<int64_t> shape;
  if (!scalar) shape.push_back(static_cast<int64_t>(values.size()));
  return Tensor::own(dtype, std::move(shape), std::move(bytes));
}

bool renames_result(const Node& n) {
  return n.is("Identity") && std::ranges::all_of(n.result()->uses(), [](const Use& u) { return u.owner->is_boundary(); });
}

TensorPtr known_integers(const Value& v, const ValueFacts& facts) {
  const Type* t = v.type();
  if (t == nullptr || !(is_integer(t->dtype()) || t->dtype() == DType::kBool)) return nullptr;
  const SymbolicValue* known = facts.find(v);
  if (known == nullptr || !t->is_static() || v.def() == nullptr || v.is_constant() || renames_result(*v.def())) return nullptr;
  if (bit_width(v.dtype()) < 8) return nullptr;
  std::vector<int64_t> elements;
  for (Dim d : known->elements) {
    if (!d.is_int()) return nullptr;
    elements.push_back(d.value());  // inference never yields integers that do not fit the type
  }
  return int_tensor(v.dtype(), known->scalar, elements);
}

}  // namespace sardonyx::onnx
