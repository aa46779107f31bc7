// dim_as_value[dim]   =>   the size at run time, in JAX's integer type
#include "sardonyx/lower.h"

namespace sardonyx {

std::vector<Value*> lower_dim_as_value(Lowering& at) { return {at.dim_as(at.dim_param("dim"), at.out_dtype())}; }

}  // namespace sardonyx
