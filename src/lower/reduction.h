// Associative operations as reductions, windows and cumulative primitives use them.
#pragma once

#include <limits>

#include "lower/kernels.h"

namespace sardonyx {

enum class Identity { kZero, kOne, kLeast, kGreatest, kAllBits };

struct Reduction {
  std::string_view primitive;  // of two elements
  std::string_view reduce_op;  // ONNX; empty: none
  std::string_view op;         // ONNX, of two tensors
  std::string_view bool_op;
  Identity identity;
};

// By the name of the primitive that combines two elements: "add", "max", ...; null when unknown.
const Reduction* find_reduction(std::string_view primitive);
// By the one primitive in the body of the equation; null when there is more.
const Reduction* find_reduction_of_body(const Lowering& ctx);

Value* combine(Lowering& ctx, const Reduction& r, Value* x, Value* y);
// Without the reduced axes.
Value* reduce_with(Lowering& ctx, const Reduction& r, Value* x, std::span<const int64_t> axes);
// Folds a jaxpr of (accumulators, elements) over rows of elements, one after the other: xs are [rows, elements], inits scalars.
std::vector<Value*> fold_rows(Lowering& ctx, const Graph& jaxpr, std::span<Value* const> xs, std::span<Value* const> inits);

// What changes nothing when combined: t[].
Value* identity_element(Lowering& ctx, const Reduction& r, DType t);

// u64 in the order of i64, and back.
Value* to_ordered_i64(Lowering& ctx, Value* x);
Value* from_ordered_i64(Lowering& ctx, Value* x);

}  // namespace sardonyx
