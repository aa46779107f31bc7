// Computing in element types that runtimes have kernels for.
//
// ONNX allows more (operator, type) pairs than onnxruntime's CPU provider implements: it has no Max of i16
// and nothing in bf16. dialects/onnx/runtimes.h lists what it has. For anything else we cast to a wider type
// that gives the same bits, and back.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

#include "sardonyx/lower.h"

namespace sardonyx {

// Whether the operator, in the version of the model's opset, takes t, and the target computes it; without a
// target, every supported release of onnxruntime that loads the opset.
bool has_kernel(const Lowering& ctx, std::string_view op, DType t);

// The narrowest type that holds every value of t and has kernels for all of `ops`: t itself if possible. For
// u64, i64 is returned if only the low bits matter. f16 and bf16 widen to f32, never to f64: exports without
// double precision contain no f64. kUndefined if there is no such type.
DType kernel_dtype(const Lowering& ctx, std::initializer_list<std::string_view> ops, DType t);

// Applies `op` to operands of one element type, computed in kernel_dtype(op). Results of that type are cast
// back; bools and indices are not. Calls ctx.unsupported() if no type will do.
Value* via(Lowering& ctx, std::string_view op, std::span<Value* const> xs, AttrInit attrs = {});
inline Value* via(Lowering& ctx, std::string_view op, std::initializer_list<Value*> xs, AttrInit attrs = {}) {
  return via(ctx, op, std::span<Value* const>(xs.begin(), xs.size()), std::move(attrs));
}

// Casts x to a type in which all of `ops` have kernels, applies `formula`, and casts back: a small float is
// rounded once, at the end. With `widen_f16`, f16 also goes to f32, because formulas of several steps lose
// too much in f16.
Value* via(Lowering& ctx, std::initializer_list<std::string_view> ops, Value* x, const std::function<Value*(Value*)>& formula,
           bool widen_f16 = true);

// Where for any element type: logic for bools, casts for types without kernels.
Value* select(Lowering& ctx, Value* condition, Value* if_true, Value* if_false);

// ONNX Reduce*, in a type that has kernels. Drops the reduced axes unless `keepdims`.
Value* reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims = false);

// Adds axes of size 1 to x, operand 0 of the equation, at `axes` (positions in the result). Returns an
// Unsqueeze; if x is a reduction over just these axes with no other user, the reduction with keepdims.
Value* insert_axes(Lowering& ctx, Value* x, std::span<const int64_t> axes);

// Operand 0 of the equation, divided by `count`, as a ReduceMean: if it is a ReduceSum over `count` elements
// and has no other user. Else null.
Value* as_mean(Lowering& ctx, Value* sum, double count);

// v as a constant of rank 0, rounded to x's element type.
Value* like(Lowering& ctx, Value* x, double v);

// The value of all elements as a double, if v is a constant and they are equal.
std::optional<double> splat_value(const Value* v);

// The value of all elements of operand i, seen through broadcasts of the program.
std::optional<double> known_value(const Lowering& ctx, size_t i);

// All operands of the equation, in order. Their shapes broadcast to those of their jax types. Complex
// operands are unsupported.
std::vector<Value*> operands(Lowering& ctx);

// `perm`, extended to the stored value of operand 0: a complex value keeps its last axis.
std::vector<int64_t> stored_axes(Lowering& ctx, std::vector<int64_t> perm);

}  // namespace sardonyx
