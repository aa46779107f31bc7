// Runs remove_redundant_casts again: propagated shapes and dtypes may reveal more casts without effect.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_redundant_casts();

Pass remove_redundant_casts_after_propagation() { return remove_redundant_casts(); }

}  // namespace sardonyx::onnx
