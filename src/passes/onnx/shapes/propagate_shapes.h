// Shared by propagate_elementwise_shapes and propagate_unary_shapes.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// Infers the types of these nodes' first results again and declares them in the file (value_info). Declared
// types that are more precise, or that contradict inference, stay.
bool propagate_shapes(Graph& top, PassContext& context, bool (*concerns)(const Node&));

}  // namespace sardonyx::onnx
