// Which dialects there are, in the order of their op ids.
#include "dialects/jax/dialect.h"
#include "dialects/mil/ops.h"
#include "dialects/onnx/ops.h"
#include "dialects/stablehlo/dialect.h"
#include "sardonyx/op.h"

namespace sardonyx {

void register_all_dialects();

// onnx and mil come first: their ids are constants of their tables.
void register_all_dialects() {
  register_dialect(onnx::dialect(), onnx::kOpCount);
  register_dialect(mil::dialect(), mil::kOpCount);
  const uint32_t first = onnx::kOpCount + mil::kOpCount;
  stablehlo::register_dialect(first + jax::register_dialect(first));
}

}  // namespace sardonyx
