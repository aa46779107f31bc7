// ONNX's operators and the layouts of their operands.
#pragma once

#include <memory>

#include "passes/layout/layout.h"

namespace sardonyx::layout {

std::unique_ptr<Operators> onnx_operators(PassContext& context);
std::vector<Border> onnx_borders(Node& n);
Dim onnx_trips(const Node& n, PassContext& context);

}  // namespace sardonyx::layout
