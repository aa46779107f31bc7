// Node results that are computed when they are read. Constant folding uses them to keep large constants out
// of memory.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Folded constants larger than this many bytes are deferred.
constexpr size_t kDeferConstantBytes = 64 << 10;

// The result of `n` as a view, without a copy, if `n` only permutes or reshapes its first operand. `t` is the
// result's static type. Null if `n` does more than that or the operand's elements are not in memory.
TensorPtr view_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t);

// The result of `n` computed piece by piece on read, if `n` casts its first operand to or from half
// precision. Cannot fail. `t` is the result's static type. Null if `n` does anything else or the operand can
// only be computed as a whole.
TensorPtr half_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t);

// The result of `n` for these operands (null: absent) as a tensor that is evaluated when its bytes are read.
// `t` is its static type. The tensor owns a copy of the node and its operands, and outlives the model.
// Evaluation must not fail and takes at most `memory_cap` bytes.
TensorPtr defer_node(const Node& n, std::vector<TensorPtr> operands, const Type& t, uint64_t memory_cap);

}  // namespace sardonyx
