// Slices along one axis of known size.
#pragma once

#include <optional>

#include "passes/mil/params.h"

namespace sardonyx::mil {

struct AxisSlice {
  Value* x;
  size_t axis;
  int64_t begin, end, size;  // of the axis
};

// n as a slice of [begin, end) along one axis, with step 1; nullopt if it is something else, or removes
// nothing.
inline std::optional<AxisSlice> axis_slice(Node& n, PassContext& context) {
  const auto slice = SliceByIndex::of(n, context.facts);
  if (!slice) return std::nullopt;
  const Value *x = n.input(0), *y = n.result();
  if (!x->ranked() || !y->ranked() || x->type()->rank() != y->type()->rank()) return std::nullopt;
  const auto begins = slice->begin(), ends = slice->end(), strides = slice->stride();
  const auto from_begin = slice->begin_mask(), to_end = slice->end_mask(), squeezed = slice->squeeze_mask();
  const size_t rank = x->type()->rank();
  if (!begins || !ends || begins->size() != rank || ends->size() != rank) return std::nullopt;
  if (!strides || std::ranges::any_of(*strides, [](int64_t s) { return s != 1; })) return std::nullopt;
  if (!from_begin || !to_end || !squeezed || std::ranges::find(*squeezed, true) != squeezed->end()) return std::nullopt;
  std::optional<AxisSlice> found;
  for (size_t i = 0; i < rank; ++i) {
    const Dim d = x->type()->dim(i);
    const bool first = (*from_begin)[i] || (*begins)[i] == 0, last = (*to_end)[i];
    if (first && last) continue;
    if (!d.is_int()) return std::nullopt;
    const int64_t size = d.value(), low = first ? 0 : (*begins)[i], high = last ? size : (*ends)[i];
    const int64_t from = low < 0 ? low + size : low, to = high < 0 ? high + size : high;
    if (from == 0 && to == size) continue;
    if (found || from < 0 || to > size || from >= to) return std::nullopt;
    found = AxisSlice{n.input(0), i, from, to, size};
  }
  return found;
}

}  // namespace sardonyx::mil
