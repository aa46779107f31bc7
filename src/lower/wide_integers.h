// Integer arithmetic around kernels of onnxruntime that compute it wrongly (dialects/onnx/wrong_kernels.gen.inc).
//
// Max, Min, Clip and Sign of i64 look at the low words only, and ReduceSum of i32 and i64 adds in doubles: wrong from 2^31, 2^53 on. Where
// the graph tells that no element is that large, the operator is written as it is.
#pragma once

#include <span>
#include <string_view>

#include "sardonyx/lower.h"

namespace sardonyx {

// Whether the operator is wrong on some integers of type t: in the target, or, where the program is lowered for none, in any release.
bool is_wrong(const Lowering& ctx, std::string_view op, DType t);

// The least m that the graph tells with -m <= x < m for every element x of v, an integer or a bool.
double integer_bound(const Lowering& ctx, const Value* v);

// `op`, one of Max, Min, Clip and Sign, on operands of one type. Of i64 by comparisons where the operator is wrong.
Value* exact_op(Lowering& ctx, std::string_view op, std::span<Value* const> xs);
inline Value* exact_op(Lowering& ctx, std::string_view op, std::initializer_list<Value*> xs) {
  return exact_op(ctx, op, std::span<Value* const>(xs.begin(), xs.size()));
}

// Max(Min(index, last), first), of integers.
Value* clamped_index(Lowering& ctx, Value* index, Value* first, Value* last);

// ReduceSum, ReduceMax or ReduceMin of integers, modulo 2^bits, over axes that are not empty lists. Null where the plain operator, in
// the type that kernel_dtype() says, is right.
Value* exact_reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims);

}  // namespace sardonyx
