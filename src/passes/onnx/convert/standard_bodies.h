// The standard's function bodies of operators, written in older operators:
//
//   Gelu(x)   =>   x * 0.5 * (1 + Erf(x / sqrt 2))
#pragma once

#include <string>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The opset version from which on the body defines the operator of `n`: older opsets lack the operator or
// give it another meaning. 0 if there is no body.
int version_with_body(const Node& n);

// Builds the values that replace the results of `n`, right before it; null for a result without users. Empty
// if the body needs something that is not known, such as a rank; `why` then says what.
std::vector<Value*> write_body(Rewriter& b, Node& n, std::string* why = nullptr);

}  // namespace sardonyx::onnx
