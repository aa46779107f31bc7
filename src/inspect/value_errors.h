// How far values are from those of a reference.
#pragma once

#include <span>
#include <unordered_map>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Differences of two tensors of numbers, as shares of the largest finite element of the reference: the
// largest, and the root of their mean square. Infinite if shapes differ, or an element is finite in the
// reference only.
struct RelativeError {
  double worst = 0, usual = 0;
};
RelativeError relative_error(const Array& reference, const Array& found);

// The relative errors of results of nodes in the main graph of `m`, where that of the reference has a
// counterpart of the same shape: the result of that name, as Core ML spells it and less _cast_fp16, or of the
// node that match_models() finds in a model of the same dialect. Constants and what is no number do not
// count.
using ValueErrors = std::unordered_map<const Value*, double>;

// Runs both models once on `inputs`, which are the reference's, by position. Inputs of `m` are those of the
// same names, or of the same positions if a name is not among them. Throws kInvalidArgument if `m` has other
// inputs, and what evaluate() throws.
ValueErrors value_errors(const Model& m, const Model& reference, std::span<const EvalValue> inputs);

}  // namespace sardonyx
