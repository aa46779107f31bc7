#include "passes/onnx/simplify/slices.h"

#include <algorithm>

#include "dialects/onnx/infer/slice_end.h"
#include "dialects/onnx/readers.h"

namespace sardonyx::onnx {

std::optional<Bounds> bounds_of(const Node& n, PassContext& context) {
  if (!n.input(0)->ranked()) return std::nullopt;
  const auto starts = context.ints(n.input(1)), ends = context.ints(n.input(2));
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  Bounds b{*starts, *ends, {}, std::vector<int64_t>(starts->size(), 1)};
  if (n.input(3) != nullptr) {
    const auto axes = read::OpReader(n, context.facts).axes_at(3, n.input(0)->type()->rank());
    if (!axes || axes->size() != starts->size()) return std::nullopt;
    b.axes = *axes;
  } else {
    for (size_t i = 0; i < starts->size(); ++i) b.axes.push_back(static_cast<int64_t>(i));
  }
  if (n.input(4) != nullptr) {
    const auto steps = context.ints(n.input(4));
    if (!steps || steps->size() != starts->size()) return std::nullopt;
    b.steps = *steps;
  }
  for (size_t i = 0; i < b.ends.size(); ++i) b.ends[i] = slice_end(b.ends[i], b.steps[i]);
  return b;
}

Piece piece_of(int64_t start, int64_t end, int64_t step, int64_t size) {
  const int64_t high = step > 0 ? size : size - 1;
  const auto within = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, -1, high); };
  const int64_t from = std::max<int64_t>(within(start), 0), to = within(end);
  if (step == 0 || size == 0 || (step > 0 ? from >= to : from <= to)) return {from, step, 0};
  // A step beyond the size takes one element, however large it is.
  const int64_t stride = std::clamp<int64_t>(step, -size, size);
  return {from, stride, stride > 0 ? (to - from + stride - 1) / stride : (from - to - stride - 1) / -stride};
}

}  // namespace sardonyx::onnx
