// Associative operations, shared by reductions, windows and cumulative primitives.
#pragma once

#include <limits>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

enum class Identity { kZero, kOne, kLeast, kGreatest, kAllBits };

struct Reduction {
  std::string_view primitive;  // on two elements
  std::string_view reduce_op;  // ONNX operator; empty: none
  std::string_view op;         // ONNX operator on two tensors
  std::string_view bool_op;
  Identity identity;
};

// Finds a reduction by the primitive that combines two elements: "add", "max", ...; null if unknown.
const Reduction* find_reduction(std::string_view primitive);
// The same for the one primitive in the equation's body; null if there is more than one.
const Reduction* find_reduction_of_body(const Lowering& ctx);

Value* combine(Lowering& ctx, const Reduction& r, Value* x, Value* y);
// Drops the reduced axes.
Value* reduce_with(Lowering& ctx, const Reduction& r, Value* x, std::span<const int64_t> axes);
// Folds a jaxpr of (accumulators, elements) over rows of elements in order: operands are [rows, elements],
// inits scalars. `counts` has the shape of the rows: elements where it is false change nothing. Null: all
// count.
std::vector<Value*> fold_rows(Lowering& ctx, const Graph& jaxpr, std::span<Value* const> operands,
                              std::span<Value* const> inits, Value* counts = nullptr);

// The identity of the operation: t[].
Value* identity_element(Lowering& ctx, const Reduction& r, DType t);

// Maps u64 to i64 so that the order stays, and back.
Value* to_ordered_i64(Lowering& ctx, Value* x);
Value* from_ordered_i64(Lowering& ctx, Value* x);

}  // namespace sardonyx::jax_to_onnx
