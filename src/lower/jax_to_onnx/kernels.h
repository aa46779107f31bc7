// Computing in element types that runtimes have kernels for.
//
// ONNX allows more (operator, type) pairs than onnxruntime's CPU provider implements: it has no Max of i16
// and nothing in bf16. dialects/onnx/runtimes/runtimes.h lists what it has. For anything else we cast to a
// wider type that gives the same bits, and back.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

// Whether the operator, in the version of the model's opset, takes t and the target computes it. Without a
// target: whether every supported release of onnxruntime that loads the opset computes it.
bool has_kernel(const Lowering& ctx, std::string_view op, DType t);

// The narrowest type that holds every value of t and has kernels for all of `ops`: t itself if possible. For
// u64, i64 is returned if only the low bits matter. f16 and bf16 widen to f32, never to f64: exports without
// double precision contain no f64. kUndefined if there is no such type.
DType kernel_dtype(const Lowering& ctx, std::initializer_list<std::string_view> ops, DType t);

// ONNX Reduce*, in a type that has kernels. Drops the reduced axes unless `keepdims`.
Value* reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims = false);

// Adds axes of size 1 to x, operand 0 of the equation, at `axes` (positions in the result). Returns an
// Unsqueeze; if x is a reduction over just these axes with no other user, the reduction with keepdims.
Value* insert_axes(Lowering& ctx, Value* x, std::span<const int64_t> axes);

// Operand 0 of the equation divided by `count`, as a ReduceMean, if it is a ReduceSum over `count` elements
// without other users. Else null.
Value* as_mean(Lowering& ctx, Value* sum, double count);

// The value of all elements as a double, if v is a constant and they are equal.
std::optional<double> splat_value(const Value* v);

// `perm`, extended to the stored value of operand 0: a complex value keeps its last axis.
std::vector<int64_t> stored_axes(Lowering& ctx, std::vector<int64_t> perm);

}  // namespace sardonyx::jax_to_onnx
