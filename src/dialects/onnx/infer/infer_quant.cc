// Quantization.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {

void quantize(InferContext& c) {
  DType dtype = DType::kUndefined;
  if (c.has_input(2)) {
    dtype = dtype_of(c, 2);
    if (auto number = c.attr_int("output_dtype"); number && *number != 0 && dtype != DType::kUndefined) {
      if (dtype_attr(c, *number, "output_dtype") != dtype) c.fail("output_dtype differs from the type of the zero point");
    }
  } else if (auto number = c.attr_int("output_dtype"); number && *number != 0) {
    dtype = dtype_attr(c, *number, "output_dtype");
  } else {
    dtype = DType::kU8;
  }
  set_same_shape(c, dtype);
}

void dequantize(InferContext& c) {
  DType dtype = c.op().since_version < 19 ? DType::kF32 : dtype_of(c, 1);
  if (auto number = c.attr_int("output_dtype"); number && *number != 0) dtype = dtype_attr(c, *number, "output_dtype");
  set_same_shape(c, dtype);
}

void dynamic_quantize(InferContext& c) {
  set_same_shape(c, DType::kU8);
  c.set(1, c.types().scalar(DType::kF32));
  c.set(2, c.types().scalar(DType::kU8));
}

}  // namespace sardonyx::onnx::rules
