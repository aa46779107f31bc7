// ONNX's operators and the layouts of their operands.
#pragma once

#include <memory>

#include "passes/layout/layout.h"

namespace sardonyx::layout {

std::unique_ptr<Operators> onnx_operators(PassContext& context);

}  // namespace sardonyx::layout
