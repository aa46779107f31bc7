// Types of values that a loop body passes to the next iteration, in Loop and in Core ML's while_loop.
#pragma once

#include "dialects/onnx/infer/rule_util.h"

namespace sardonyx::onnx::rules {

inline const Type* output_type(const Graph& g, size_t i) { return g.output(i) ? g.output(i)->type() : nullptr; }

// The narrowest type that holds both what enters the body, `in`, and what it returns, `out`: tensors of one
// element type. Sizes that differ become unknown, and so does the rank if it differs. Null if `in` already
// holds `out`. `gives_up` asks for the widest type, after many rounds in which sizes kept changing.
inline const Type* widened_to_hold(Types& types, const Type* in, const Type* out, bool gives_up) {
  if (!in->ranked()) return nullptr;
  if (gives_up || !out->ranked() || out->rank() != in->rank()) return types.unranked(in->dtype());
  DimVec dims = dims_of(in);
  bool changed = false;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == out->dim(k) || dims[k].is_unknown()) continue;
    dims[k] = Dim();
    changed = true;
  }
  return changed ? types.freshen(types.tensor(in->dtype(), dims)) : nullptr;
}

}  // namespace sardonyx::onnx::rules
