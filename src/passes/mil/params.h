// Parameters of Core ML ops for passes: params(node, context) gives what param_ints() and the others of
// rule_util.h read.
#pragma once

#include <algorithm>

#include "dialects/mil/rule_util.h"
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

using rules::param_bool;
using rules::param_dtype;
using rules::param_float;
using rules::param_ints;
using rules::param_string;

inline InferContext params(Node& n, PassContext& context) { return {n, context.facts, n.op().since_version}; }

// Whether its own block returns v, so that its name must stay. Nested blocks may return it under other names.
inline bool is_block_result(const Value& v) {
  return std::ranges::any_of(v.uses(), [&](const Use& u) { return u.owner->is_boundary() && u.owner->graph() == v.graph(); });
}

// The operand in that slot; null if it is absent. Not for lists.
inline Value* operand(Node& n, PassContext& context, std::string_view slot) {
  const InferContext c = params(n, context);
  const size_t i = rules::operand(c, slot);
  return i == rules::kNoSlot ? nullptr : n.input(i);
}

// The elements of a list operand.
inline std::vector<Value*> list(Node& n, PassContext& context, std::string_view slot) {
  const InferContext c = params(n, context);
  const rules::Range r = rules::list(c, slot);
  std::vector<Value*> values;
  for (size_t i = r.first; i < r.last; ++i) values.push_back(n.input(i));
  return values;
}

}  // namespace sardonyx::mil
