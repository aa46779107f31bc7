// Computing in element types that runtimes have kernels for.
//
// ONNX allows more (operator, type) pairs than onnxruntime's CPU provider implements: no Max of i16, nothing in bf16.
// dialects/onnx/runtimes.h knows what it has; where it has nothing we cast to a wider type that gives the same bits, and back.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

#include "sardonyx/lower.h"

namespace sardonyx {

// Whether the operator, in the version of the model's opset, takes t and a runtime computes it.
bool has_kernel(const Lowering& ctx, std::string_view op, DType t);

// The narrowest type that holds every value of t and has kernels for all of `ops`: t itself where possible. For u64, i64 stands in
// where only the low bits matter. Floats never widen to f64, since exports without double precision hold none: f16 and bf16 go to
// f32. kUndefined when there is no such type.
DType kernel_dtype(const Lowering& ctx, std::initializer_list<std::string_view> ops, DType t);

// Operator `op` on operands of one element type, computed in kernel_dtype(op). A result of that type is cast back; bool
// and index results stay. Gives up through at.unsupported() when no type will do.
Value* via(Lowering& ctx, std::string_view op, std::span<Value* const> xs, AttrInit attrs = {});
inline Value* via(Lowering& ctx, std::string_view op, std::initializer_list<Value*> xs, AttrInit attrs = {}) {
  return via(ctx, op, std::span<Value* const>(xs.begin(), xs.size()), std::move(attrs));
}

// x cast to a type in which all of `ops` have kernels, run through `formula`, and cast back: one rounding at the end
// where x is a small float. With `widen_f16`, f16 goes to f32 too: formulas of several steps lose too much in f16.
Value* via(Lowering& ctx, std::initializer_list<std::string_view> ops, Value* x, const std::function<Value*(Value*)>& formula,
           bool widen_f16 = true);

// Where for any element type: bool by logic, others through the types that have kernels.
Value* select(Lowering& ctx, Value* condition, Value* if_true, Value* if_false);

// ONNX Reduce* without the reduced axes, in a type that has kernels.
Value* reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims = false);

// x, operand 0 of the equation, with axes of size 1 put in at `axes` (positions in the result): Unsqueeze, or, where x is a reduction over
// just these axes that nobody else reads, the reduction with keepdims.
Value* insert_axes(Lowering& ctx, Value* x, std::span<const int64_t> axes);

// Sum / count of the equation's operand 0, where that is a ReduceSum over `count` elements that nobody else reads: ReduceMean. Else null.
Value* as_mean(Lowering& ctx, Value* sum, double count);

// A constant of x's element type, rank 0: v rounded to it.
Value* like(Lowering& ctx, Value* x, double v);

// The value of every element of v if it is a constant whose elements are all equal, as a double.
std::optional<double> splat_value(const Value* v);

// The value of all elements of operand i of the equation, seen through the broadcasts of the program.
std::optional<double> known_value(const Lowering& ctx, size_t i);

// All operands of the equation, in order, each of a shape that broadcasts to its jax type's. Gives up on complex ones.
std::vector<Value*> operands(Lowering& ctx);

// A permutation of the axes of operand 0, for the value as the graph holds it: the last axis of a complex one stays.
std::vector<int64_t> stored_axes(Lowering& ctx, std::vector<int64_t> perm);

}  // namespace sardonyx
