// remove_redundant_casts once more: shapes and dtypes that were propagated since may have shown new casts without effect.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_redundant_casts();

Pass remove_redundant_casts_after_propagation() { return remove_redundant_casts(); }

}  // namespace sardonyx::onnx
