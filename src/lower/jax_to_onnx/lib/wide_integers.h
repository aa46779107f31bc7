// Integer arithmetic that avoids kernels of onnxruntime with wrong results
// (dialects/onnx/generated/wrong_kernels.gen.inc).
//
// Max, Min, Clip and Sign of i64 look only at the low words, and ReduceSum of i32 and i64 adds in doubles:
// they are wrong from 2^31 and 2^53 on. If the graph shows that no element is that large, the plain operator
// is written.
#pragma once

#include <span>
#include <string_view>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

// Whether the operator is wrong on some integers of type t: in the target, or in any release if there is no
// target.
bool is_wrong(const Lowering& ctx, std::string_view op, DType t);

// The least m for which the graph shows -m <= x < m for every element x of v, an integer or a bool.
double integer_bound(const Lowering& ctx, const Value* v);

// Applies `op`, one of Max, Min, Clip and Sign, to operands of one type; i64 by comparisons if the operator
// is wrong.
Value* exact_op(Lowering& ctx, std::string_view op, std::span<Value* const> xs);
inline Value* exact_op(Lowering& ctx, std::string_view op, std::initializer_list<Value*> xs) {
  return exact_op(ctx, op, std::span<Value* const>(xs.begin(), xs.size()));
}

// Max(Min(index, last), first), for integers.
Value* clamped_index(Lowering& ctx, Value* index, Value* first, Value* last);

// ReduceSum, ReduceMax or ReduceMin of integers, modulo 2^bits; `axes` must not be empty. Null if the plain
// operator is right in the type of kernel_dtype().
Value* exact_reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims);

}  // namespace sardonyx::jax_to_onnx
