// Results of nodes that are computed when somebody reads them: how folding keeps large constants out of memory.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Above this many bytes a folded constant is deferred.
constexpr size_t kDeferConstantBytes = 64 << 10;

// The one result of n, of the static type t, where it is elements of its first operand in another order or by other sizes: without a copy.
// Null where n does more than that, or where those elements are not in memory.
TensorPtr view_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t);

// The one result of n, of the static type t, where it is its first operand cast to half precision, or from it: computed piece by piece when
// somebody reads it, and nothing can fail. Null where n does anything else, or where that operand is computed as a whole.
TensorPtr half_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t);

// The one result of n, of the static type t, from these operands (null: absent), as a tensor that is evaluated when its bytes are read.
// It keeps a copy of the node and the operands, and outlives the model. Evaluating must not fail, and takes at most `memory_cap` bytes.
TensorPtr defer_node(const Node& n, std::vector<TensorPtr> operands, const Type& t, uint64_t memory_cap);

}  // namespace sardonyx
