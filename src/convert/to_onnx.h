// What programs do before and after convert().
#pragma once

#include "sardonyx/convert.h"

namespace sardonyx {

// Throws Error(kLimit) for graphs nested deeper than protobuf's readers allow (100 messages, three per
// graph): no runtime loads such a file.
void check_nesting(const Model& onnx);

// Builds what conversions cache for the process: lowerings, tables of kernels, patterns and their matchers.
// Otherwise the first conversion builds them.
void prepare_conversion();

}  // namespace sardonyx
