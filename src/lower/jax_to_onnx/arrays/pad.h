// XLA's padding, for lowerings that need more than ONNX offers.
#pragma once

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

// Elements added before, after and between the elements of one axis. Negative edges remove elements.
struct Padding {
  Dim low = Dim::of(0);
  Dim high = Dim::of(0);
  int64_t interior = 0;
};

// Pads x with `fill`, a scalar of its type; `config` has one Padding per axis.
Value* pad(Lowering& ctx, Value* x, std::span<const Padding> config, Value* fill);
// An axis along which a window slides.
struct PaddedAxis {
  Padding padding;
  Dim size;
  int64_t kernel, stride;
};

// The auto_pad that pads all axes like this: SAME_UPPER, SAME_LOWER, or empty. onnxruntime takes neither if
// the stride exceeds the kernel.
std::string_view auto_pad_of(Dims& dims, std::span<const PaddedAxis> axes);
// Reads a parameter that is a tuple of (low, high) or (low, high, interior).
std::vector<Padding> padding_param(Lowering& ctx, std::string_view name);

}  // namespace sardonyx::jax_to_onnx
