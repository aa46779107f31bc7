// Shared by type rules: axes, broadcasting, arithmetic on dims.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "sardonyx/error.h"
#include "sardonyx/infer.h"

namespace sardonyx::onnx::rules {

using DimVec = std::vector<Dim>;

inline DimVec dims_of(const Type* t) { return DimVec(t->dims().begin(), t->dims().end()); }

// The axis counted from the front; fails unless it is in [-rank, rank).
size_t normal_axis(const InferContext& c, int64_t axis, size_t rank, std::string_view name = "axis");
// Axes of a list, counted from the front; fails on repeats.
std::vector<size_t> normal_axes(const InferContext& c, std::span<const int64_t> axes, size_t rank,
                                std::string_view name = "axes");

// Result i has exactly the type of operand `from`.
void set_same(InferContext& c, size_t from = 0, size_t i = 0);
// Result i has the shape of operand `from` and another element type.
void set_same_shape(InferContext& c, DType dtype, size_t from = 0, size_t i = 0);
// The element type of operand i, kUndefined when unknown.
DType dtype_of(const InferContext& c, size_t i);
// The dtype for an ONNX type number from an attribute; fails if there is none.
DType dtype_attr(const InferContext& c, int64_t number, std::string_view name);

// The broadcast of two dims. Fails if they are different integers and neither is 1.
Dim broadcast_dim(const InferContext& c, Dim a, Dim b);
DimVec broadcast(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b);
// The shape of operands [first, last) broadcast together; nullopt if a rank is unknown.
std::optional<DimVec> broadcast_inputs(const InferContext& c, size_t first, size_t last);

// The more precise of two dims that must be equal at run time. Fails if they are different integers.
Dim same_dim(const InferContext& c, Dim a, Dim b, std::string_view what);
// The same for each dim of two shapes of equal rank.
DimVec same_dims(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b, std::string_view what);

// Fails if operand i has a known rank other than this (or these).
void need_rank(const InferContext& c, size_t i, size_t rank);
void need_rank_at_least(const InferContext& c, size_t i, size_t rank);

// Like Dims::add and so on, but adding 0 or multiplying by 1 keeps the identity of an unknown dim.
Dim add(const InferContext& c, Dim a, Dim b);
Dim sub(const InferContext& c, Dim a, Dim b);
Dim mul(const InferContext& c, Dim a, Dim b);
inline Dim add(const InferContext& c, Dim a, int64_t b) { return add(c, a, Dim::of(b)); }
inline Dim sub(const InferContext& c, Dim a, int64_t b) { return sub(c, a, Dim::of(b)); }
inline Dim mul(const InferContext& c, Dim a, int64_t b) { return mul(c, a, Dim::of(b)); }
// floor(a / b); b > 0.
Dim floordiv(const InferContext& c, Dim a, int64_t b);
Dim ceildiv(const InferContext& c, Dim a, int64_t b);

// Result 0 is operand 0 with the sizes in `target`: one may be -1, and 0 copies a size unless `zero_is_zero`.
// Without `target`, operand 1 is the list of sizes. In infer_shape.cc.
void reshape_to(InferContext& c, const std::optional<SymbolicValue>& target, bool zero_is_zero);

// Result 0 is NumPy's matmul of operands a and b, or of operands of these shapes. In infer_matmul.cc.
void product(InferContext& c, size_t a, size_t b, DType dtype);
void product_of_dims(InferContext& c, DimVec l, DimVec r, DType dtype);

// Whether inference tracks the elements of results of this type: i64, i32 and bool (as 0 and 1), of rank 0 or
// 1.
bool carries_value(const Type* t);
// The length of operand i if it is a list of at most 64 elements: a shape, axes, sizes.
std::optional<size_t> list_length(const InferContext& c, size_t i);
// The single element of a scalar or one-element operand.
std::optional<Dim> scalar_value(const InferContext& c, size_t i);
std::optional<int64_t> scalar_int(const InferContext& c, size_t i);

}  // namespace sardonyx::onnx::rules
