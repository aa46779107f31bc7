// top_k[k, axis] x   =>   TopK<axis>(x, k), indices cast to i32
//
// Equal elements come in the order of their indices in both. Where NaN goes is left to the runtime.
#include "lower/reduction.h"

namespace sardonyx {

std::vector<Value*> lower_top_k(Lowering& at) {
  Value* x = operands(at)[0];
  DType own = x->dtype();
  bool is_u64 = own == DType::kU64;
  DType wide = is_u64 ? DType::kI64 : kernel_dtype({"TopK"}, own);
  int64_t axis = at.find_param("axis") != nullptr ? at.int_param("axis") : -1;
  Dim k = at.dim_param("k");
  Node& top = at.b.TopK(is_u64 ? to_ordered_i64(at, x) : at.cast(x, wide), at.shape({&k, 1}), {.axis = axis});
  Value* values = is_u64 ? from_ordered_i64(at, top.result(0)) : at.cast(top.result(0), own);
  return {values, at.cast(top.result(1), at.out_dtype(1))};
}

}  // namespace sardonyx
