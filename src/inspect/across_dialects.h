// Values that go from a model of one dialect to one of another.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// The value with the element type that the port has: Core ML has fewer of them. Others than numbers stay.
EvalValue converted(const EvalValue& v, const Port& to);

// Evaluates `coreml` on inputs of `onnx`, paired by place: inputs are cast to the element types and ranks of
// Core ML's interface, and the results back to those of ONNX. Throws what evaluate() throws, and
// kInvalidArgument for an integer that has more than 32 bits.
std::vector<EvalValue> evaluate_lowered(const Model& onnx, const Model& coreml, std::span<const EvalValue> inputs);

}  // namespace sardonyx
