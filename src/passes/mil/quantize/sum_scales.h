// The form of sums between dequantize and quantize in which one operand has the scale 1.
#pragma once

#include "passes/mil/params.h"

namespace sardonyx::mil {

// Gives an add or sub that form, if dequantize makes both operands and quantize alone uses the sum or its
// relu. Whether anything changed. Dequantizes that lose their users stay.
bool normalize_scales(Node& sum, Rewriter& b, PassContext& context);

}  // namespace sardonyx::mil
