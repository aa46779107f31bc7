// Fourier transforms and windows.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {

void dft(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const bool onesided = c.attr_int("onesided", 0) != 0, inverse = c.attr_int("inverse", 0) != 0;
  if (x == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 2);
  const Dim parts = x->dim(x->rank() - 1);
  if (parts.is_int() && parts.value() != 1 && parts.value() != 2) c.fail("the last dim must be 1 (real) or 2 (complex)");
  // The axis is an attribute before opset 20, and an operand since.
  std::optional<int64_t> axis;
  if (c.op().since_version < 20) {
    axis = c.attr_int("axis", 1);
  } else if (c.has_input(2)) {
    axis = scalar_int(c, 2);
  } else {
    axis = -2;
  }
  DimVec dims = dims_of(x);
  const bool back_to_real = onesided && inverse;
  dims.back() = Dim::of(back_to_real ? 1 : 2);
  if (!axis) {
    // The length of any axis may have changed.
    if (onesided || c.has_input(1)) {
      for (size_t i = 0; i + 1 < dims.size(); ++i) dims[i] = Dim();
    }
    c.set(0, dtype, dims);
    return;
  }
  const size_t at = normal_axis(c, *axis, x->rank());
  if (at + 1 == x->rank()) c.fail("the axis of the transform cannot be the last one");
  Dim length = dims[at];
  if (c.has_input(1)) {
    const auto v = scalar_value(c, 1);
    length = v ? *v : Dim();
  } else if (back_to_real) {
    length = length.is_unknown() ? Dim() : mul(c, sub(c, length, 1), 2);
  }
  if (onesided && !inverse && !length.is_unknown()) length = add(c, floordiv(c, length, 2), 1);
  if (onesided && !inverse && length.is_unknown()) length = Dim();
  dims[at] = length;
  c.set(0, dtype, dims);
}

void stft(InferContext& c) {
  need_rank_at_least(c, 0, 2);
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *window = c.ranked(2);
  const bool onesided = c.attr_int("onesided", 1) != 0;
  Dim frame;
  if (auto v = scalar_value(c, 3)) {
    frame = *v;
    if (window != nullptr && window->rank() == 1) frame = same_dim(c, frame, window->dim(0), "frame_length and the window");
  } else if (window != nullptr && window->rank() == 1 && !c.has_input(3)) {
    frame = window->dim(0);
  }
  if (dtype == DType::kUndefined) return;
  Dim frames;
  const auto step = scalar_int(c, 1);
  if (step && *step <= 0) c.fail("frame_step must be positive");
  if (x != nullptr && x->rank() >= 2 && step && !frame.is_unknown() && !x->dim(1).is_unknown()) {
    frames = add(c, floordiv(c, sub(c, x->dim(1), frame), *step), 1);
  }
  Dim bins = frame;
  if (onesided) bins = frame.is_unknown() ? Dim() : add(c, floordiv(c, frame, 2), 1);
  c.set(0, dtype, DimVec{x ? x->dim(0) : Dim(), frames, bins, Dim::of(2)});
}

void window(InferContext& c) {
  const DType dtype = dtype_attr(c, c.attr_int("output_datatype", 1), "output_datatype");
  const auto size = scalar_value(c, 0);
  if (size && size->is_int() && size->value() < 0) c.fail("the size is negative");
  c.set(0, dtype, DimVec{size ? *size : Dim()});
}

void mel_weights(InferContext& c) {
  const DType dtype = dtype_attr(c, c.attr_int("output_datatype", 1), "output_datatype");
  const auto bins = scalar_value(c, 0), length = scalar_value(c, 1);
  Dim rows;
  if (length && !length->is_unknown()) rows = add(c, floordiv(c, *length, 2), 1);
  c.set(0, dtype, DimVec{rows, bins ? *bins : Dim()});
}

}  // namespace sardonyx::onnx::rules
