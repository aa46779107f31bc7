// unique[axis, dtype, size] x   =>   Unique<axis, sorted>(x): values, first indices, inverse indices, counts
//
// The distinct slices of x, an integer tensor, along `axis` in ascending order. `size` is the symbol for
// their number.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_unique(Lowering& ctx) {
  const DType own = ctx.in_dtype(0);
  const DType wide = kernel_dtype(ctx, {"Unique"}, own);
  if (wide == DType::kUndefined) ctx.unsupported("no runtime computes Unique in " + std::string(to_string(own)));
  AttrInit attrs{attr("sorted", 1)};
  if (ctx.in_rank(0) != 1) attrs.push_back(attr("axis", ctx.int_param("axis")));
  Value* operands[] = {ctx.cast(ctx.in(0), wide)};
  Node& n = ctx.b.node("Unique", operands, 4, std::move(attrs));
  std::vector<Value*> results{ctx.cast(n.result(0), own)};
  for (size_t i = 1; i < 4; ++i) results.push_back(ctx.cast(n.result(i), ctx.out_dtype(i)));
  return results;
}

}  // namespace sardonyx::jax_to_onnx
