// Operators as the standard's function bodies define them, written in older operators:
//
//   Gelu(x)   =>   x * 0.5 * (1 + Erf(x / sqrt 2))
#pragma once

#include <string>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The version of the node's operator from which on only its body says what it does: an older opset lacks the operator,
// or means something else by it. 0 where no body is known.
int version_with_body(const Node& n);

// The values that replace the results of `n`, made by `b`, which stands right before it; null for a result without
// users. None where the body needs what is not known, such as a rank (`why` says what).
std::vector<Value*> write_body(Rewriter& b, Node& n, std::string* why = nullptr);

}  // namespace sardonyx::onnx
