// Which dialects there are, in the order of their op ids.
#include "dialects/jax/dialect.h"
#include "dialects/mil/ops.h"
#include "dialects/onnx/ops.h"
#include "sardonyx/op.h"

namespace sardonyx {

void register_all_dialects();

// onnx and mil come first: their ids are constants of their tables.
void register_all_dialects() {
  register_dialect(onnx::dialect(), onnx::kOpCount);
  register_dialect(mil::dialect(), mil::kOpCount);
  jax::register_dialect(onnx::kOpCount + mil::kOpCount);
}

}  // namespace sardonyx
