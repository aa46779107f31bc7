#include "passes/onnx/shape_target.h"

#include <algorithm>

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
  if (open && copies_zero) return std::nullopt;  // 0 = 0 * ? has no answer
  if (copies == 1 && !open && y.rank() > x.type()->rank()) std::replace(target.begin(), target.end(), int64_t{0}, int64_t{-1});
  return target;
}

std::optional<std::vector<int64_t>> axes_of(const Node& n, PassContext& context, size_t rank) {
  // Versions that have an operand for them know no such attribute, whatever a file says.
  auto axes = n.op().max_inputs == 1 ? ints_attr(n, "axes") : n.input(1) != nullptr ? context.ints(n.input(1)) : std::nullopt;
  if (!axes || axes->empty()) return std::nullopt;
  for (int64_t& a : *axes) {
    if (a < 0) a += static_cast<int64_t>(rank);
    if (a < 0 || a >= static_cast<int64_t>(rank)) return std::nullopt;
  }
  std::sort(axes->begin(), axes->end());
  return axes;
}

}  // namespace sardonyx::onnx
