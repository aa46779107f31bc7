// Compares the bodies of two nodes.
#pragma once

#include <functional>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

// Whether the bodies are equal up to names. Values from outside must be identical, or `same_outside` must
// accept the pair: a value that the bodies of `a` do not define, and its counterpart in those of `b`.
bool same_bodies(const Node& a, const Node& b, const std::function<bool(const Value*, const Value*)>& same_outside = {});

}  // namespace sardonyx::onnx
