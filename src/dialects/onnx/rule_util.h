// What type rules share: axes, broadcasting, arithmetic on dims.
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

// The axis counted from the front; fails when it is not in [-rank, rank).
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
// The number of an element type in an attribute; fails when it is none.
DType dtype_attr(const InferContext& c, int64_t number, std::string_view name);

// One dim of broadcast operands. Fails when both are integers that differ and none is 1.
Dim broadcast_dim(const InferContext& c, Dim a, Dim b);
DimVec broadcast(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b);
// The shape of all operands [first, last) broadcast together; nullopt when a rank is unknown.
std::optional<DimVec> broadcast_inputs(const InferContext& c, size_t first, size_t last);

// Dims that must be equal at run time: the one that says most. Fails when they are different integers.
Dim same_dim(const InferContext& c, Dim a, Dim b, std::string_view what);
// Two shapes that must be equal, dim by dim. The ranks must be the same.
DimVec same_dims(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b, std::string_view what);

// Fails unless operand i, when its rank is known, has this rank (or one of these).
void need_rank(const InferContext& c, size_t i, size_t rank);
void need_rank_at_least(const InferContext& c, size_t i, size_t rank);

// Like Dims::add and friends, but adding 0 and multiplying by 1 keep an unknown dim what it is.
Dim add(const InferContext& c, Dim a, Dim b);
Dim sub(const InferContext& c, Dim a, Dim b);
Dim mul(const InferContext& c, Dim a, Dim b);
inline Dim add(const InferContext& c, Dim a, int64_t b) { return add(c, a, Dim::of(b)); }
inline Dim sub(const InferContext& c, Dim a, int64_t b) { return sub(c, a, Dim::of(b)); }
inline Dim mul(const InferContext& c, Dim a, int64_t b) { return mul(c, a, Dim::of(b)); }
// floor(a / b); b > 0.
Dim floordiv(const InferContext& c, Dim a, int64_t b);
Dim ceildiv(const InferContext& c, Dim a, int64_t b);

// Result 0 is operand 0 with the sizes that `target` says: one may be -1, and 0 copies a size unless `zero_is_zero`. If they are
// not known, operand 1 is the list of them. In infer_shape.cc.
void reshape_to(InferContext& c, const std::optional<SymbolicValue>& target, bool zero_is_zero);

// Result 0 is NumPy's matmul of operands a and b, or of operands of these shapes. In infer_matmul.cc.
void product(InferContext& c, size_t a, size_t b, DType dtype);
void product_of_dims(InferContext& c, DimVec l, DimVec r, DType dtype);

// Whether results of this element type carry their value along: i64 and i32, of rank 0 or 1, and bool as 0 and 1.
bool carries_value(const Type* t);
// How many elements operand i has, when it is a list of at most 64: a shape, axes, sizes.
std::optional<size_t> list_length(const InferContext& c, size_t i);
// The single element of a scalar or one-element operand.
std::optional<Dim> scalar_value(const InferContext& c, size_t i);
std::optional<int64_t> scalar_int(const InferContext& c, size_t i);

}  // namespace sardonyx::onnx::rules
