// Whether the bodies of two nodes compute the same.
#pragma once

#include <functional>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

// Equal up to names. Values from outside must be the same, or what `same_outside` takes for the same: it is asked about a value that the
// bodies of `a` do not define, and what stands in its place in those of `b`.
bool same_bodies(const Node& a, const Node& b, const std::function<bool(const Value*, const Value*)>& same_outside = {});

}  // namespace sardonyx::onnx
