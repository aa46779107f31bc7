// Values that go from a model of one dialect to one of another.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// The value with the element type that the port has: Core ML has fewer of them. Others than numbers stay.
EvalValue converted(const EvalValue& v, const Port& to);

// Inputs of an ONNX model, by position, in the element types and ranks of Core ML's interface. Absent ones
// stay so. Throws kInvalidArgument for an integer that has more than 32 bits, and for what is no tensor.
std::vector<EvalValue> inputs_of_lowered(const Model& coreml, std::span<const EvalValue> inputs);

// Evaluates `coreml` on such inputs of `onnx`, and casts the results back to the types of ONNX. Throws what
// evaluate() throws as well.
std::vector<EvalValue> evaluate_lowered(const Model& onnx, const Model& coreml, std::span<const EvalValue> inputs);

}  // namespace sardonyx
