#include "lower/engine/sizes.h"

namespace sardonyx::lower {

Value* SizeWriter::write(Dims& dims, Dim d) {
  if (d.is_int()) return constant(d.value());
  if (Value* v = known(d)) return v;
  if (!d.is_expr()) return nullptr;
  const Dims::Parts parts = dims.parts(d);
  Value* result = nullptr;
  for (Dim operand : parts.operands) {
    Value* next = write(dims, operand);
    result = result == nullptr || next == nullptr ? next : combine(d, parts, result, next);
    if (result == nullptr) return nullptr;
  }
  if (result != nullptr) keep(d, result);
  return result;
}

}  // namespace sardonyx::lower
