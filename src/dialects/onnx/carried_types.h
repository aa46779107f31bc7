// Types of values that a body hands on from one iteration to the next, in Loop and in Core ML's while_loop.
#pragma once

#include "dialects/onnx/rule_util.h"

namespace sardonyx::onnx::rules {

inline const Type* output_type(const Graph& g, size_t i) { return g.output(i) ? g.output(i)->type() : nullptr; }

// The type that holds both what went into the body, `in`, and what came out, `out`, tensors of one element type: sizes
// that differ are unknown, and so is the rank where it differs. Null if `in` holds `out`. After many rounds `gives_up`
// asks for the widest type, since sizes may go on changing.
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
