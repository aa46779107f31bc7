// Padding as XLA has it, for the lowerings that need more of it than ONNX offers.
#pragma once

#include "lower/kernels.h"

namespace sardonyx {

// Elements added before, after, and between neighbours, on one axis. Negative edges remove elements.
struct Padding {
  Dim low = Dim::of(0);
  Dim high = Dim::of(0);
  int64_t interior = 0;
};

// One Padding per axis of x; `fill` is a scalar of its type.
Value* pad(Lowering& ctx, Value* x, std::span<const Padding> config, Value* fill);
// One axis that a window slides along.
struct PaddedAxis {
  Padding padding;
  Dim size;
  int64_t kernel, stride;
};

// The auto_pad that pads all axes like this: SAME_UPPER, SAME_LOWER, or empty. onnxruntime takes neither where the stride is the larger one.
std::string_view auto_pad_of(Dims& dims, std::span<const PaddedAxis> axes);
// A parameter that is a tuple of (low, high) or (low, high, interior).
std::vector<Padding> padding_param(Lowering& ctx, std::string_view name);

}  // namespace sardonyx
