// Bounds of the integers that a traced program computes, to find out whether an index is in bounds.
#pragma once

#include <optional>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

struct IndexBounds {  // inclusive, in the dims of the ONNX model; nullopt = nothing is known on that side
  std::optional<Dim> low, high;
};

// The bounds of all elements of `v`, a value of the jax dialect. Follows constants, sizes, counters,
// arithmetic, selections and moves of elements, into and out of nested programs.
IndexBounds index_bounds(const Lowering& ctx, const Value& v);

// Indices start, start + step, ... along their first axis, as in x[::2] and x[::-1] along an axis of symbolic
// size.
struct IndexSequence {
  Dim start;
  int64_t step = 1;
};
std::optional<IndexSequence> index_sequence(const Lowering& ctx, const Value& v);

// Whether each component of operand i (its last axis, one per limit) provably lies in 0 .. limits[k].
bool is_in_bounds(const Lowering& ctx, size_t i, std::span<const Dim> limits);

}  // namespace sardonyx::jax_to_onnx
