// Random numbers.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {

void random_shape(InferContext& c) {
  const DType dtype = dtype_attr(c, c.attr_int("dtype", 1), "dtype");
  const auto shape = c.attr_ints("shape");
  if (!shape) return c.set_unranked(0, dtype);
  for (int64_t d : *shape) {
    if (d < 0) c.fail("the shape has a negative size");
  }
  c.set(0, c.types().tensor(dtype, *shape));
}

void random_like(InferContext& c) {
  const auto number = c.attr_int("dtype");
  set_same_shape(c, number ? dtype_attr(c, *number, "dtype") : dtype_of(c, 0));
}

void multinomial(InferContext& c) {
  const DType dtype = dtype_attr(c, c.attr_int("dtype", 6), "dtype");
  need_rank(c, 0, 2);
  const Type* x = c.ranked(0);
  c.set(0, dtype, DimVec{x ? x->dim(0) : Dim(), Dim::of(c.attr_int("sample_size", 1))});
}

}  // namespace sardonyx::onnx::rules
