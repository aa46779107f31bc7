// What propagate_elementwise_shapes and propagate_unary_shapes share.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// Infers the types of the first results of these nodes once more, and makes what is known of them part of what the file says of
// values (value_info). What was declared and is more precise, or contradicts, stays.
bool propagate_shapes(Graph& top, PassContext& context, bool (*concerns)(const Node&));

}  // namespace sardonyx::onnx
