// Shared by type rules of MIL: access to operands and parameters by slot name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/infer/rule_util.h"

namespace sardonyx::mil::rules {

// Axes, broadcasting and arithmetic on sizes are those of ONNX.
using onnx::rules::add;
using onnx::rules::broadcast;
using onnx::rules::broadcast_inputs;
using onnx::rules::carries_value;
using onnx::rules::ceildiv;
using onnx::rules::dims_of;
using onnx::rules::DimVec;
using onnx::rules::dtype_of;
using onnx::rules::floordiv;
using onnx::rules::list_length;
using onnx::rules::mul;
using onnx::rules::need_rank;
using onnx::rules::need_rank_at_least;
using onnx::rules::normal_axes;
using onnx::rules::normal_axis;
using onnx::rules::same_dim;
using onnx::rules::same_dims;
using onnx::rules::scalar_int;
using onnx::rules::scalar_value;
using onnx::rules::set_same;
using onnx::rules::set_same_shape;
using onnx::rules::sub;

constexpr size_t kNoSlot = SIZE_MAX;

// The index of the operand in that slot; kNoSlot if the op has no such slot or the operand is absent.
size_t operand(const InferContext& c, std::string_view slot);
inline bool given(const InferContext& c, std::string_view slot) { return operand(c, slot) != kNoSlot; }
// The operands [first, last) of a list.
struct Range {
  size_t first = 0, last = 0;
};
Range list(const InferContext& c, std::string_view slot);

// The parameter's value, else the op's default; nullopt if unknown or absent.
std::optional<int64_t> param_int(const InferContext& c, std::string_view slot);
// The same, possibly symbolic, without the op's default.
std::optional<Dim> param_dim(const InferContext& c, std::string_view slot);
bool param_bool(const InferContext& c, std::string_view slot, bool otherwise = false);
std::optional<double> param_float(const InferContext& c, std::string_view slot);
// In lower case.
std::optional<std::string> param_string(const InferContext& c, std::string_view slot);
std::optional<std::vector<int64_t>> param_ints(const InferContext& c, std::string_view slot);
// The element type named by a string ("fp16", "int32"); kUndefined if unknown.
DType param_dtype(const InferContext& c, std::string_view slot);

// Gives result i this element type and shape; does nothing if the element type is unknown.
inline void set_dims(InferContext& c, DType dtype, std::span<const Dim> dims, size_t i = 0) {
  if (dtype != DType::kUndefined) c.set(i, dtype, dims);
}

}  // namespace sardonyx::mil::rules
