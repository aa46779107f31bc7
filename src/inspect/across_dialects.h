// Runs a Core ML program in place of the ONNX model that it was lowered from.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Inputs of an ONNX model, by position, in the element types and ranks of Core ML's interface. Absent ones
// stay so. Throws kInvalidArgument for an integer that has more than 32 bits, and for what is no tensor.
std::vector<EvalValue> inputs_of_lowered(const Model& coreml, std::span<const EvalValue> inputs);

// Evaluates `coreml` on such inputs of `onnx`, and casts the results back to the types of ONNX. Throws what
// evaluate() throws as well.
std::vector<EvalValue> evaluate_lowered(const Model& onnx, const Model& coreml, std::span<const EvalValue> inputs);

}  // namespace sardonyx
