// Which dialects there are, in the order of their op ids.
#include "dialects/jax/dialect.h"
#include "dialects/onnx/ops.h"
#include "sardonyx/op.h"

namespace sardonyx {

void register_all_dialects();

// onnx comes first: its ids are constants of its table and begin at 0.
void register_all_dialects() {
  register_dialect(onnx::dialect(), onnx::kOpCount);
  jax::register_dialect(onnx::kOpCount);
}

}  // namespace sardonyx
