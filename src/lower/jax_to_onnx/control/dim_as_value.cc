// dim_as_value[dim]   =>   the size at run time, in JAX's integer type
#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_dim_as_value(Lowering& ctx) { return {ctx.dim_as(ctx.dim_param("dim"), ctx.out_dtype())}; }

}  // namespace sardonyx::jax_to_onnx
