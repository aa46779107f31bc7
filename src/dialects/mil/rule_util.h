// What type rules of MIL share: operands and parameters by the name of their slot.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/rule_util.h"

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

// The operand in that slot; kNoSlot when the op has no such slot, or nothing is given.
size_t operand(const InferContext& c, std::string_view slot);
inline bool given(const InferContext& c, std::string_view slot) { return operand(c, slot) != kNoSlot; }
// First and one past the last operand of a list.
struct Range {
  size_t first = 0, last = 0;
};
Range list(const InferContext& c, std::string_view slot);

// A parameter as the program has it, else the op's default, else nullopt: not known, or not given.
std::optional<int64_t> param_int(const InferContext& c, std::string_view slot);
// The same, symbolic too; without the op's default.
std::optional<Dim> param_dim(const InferContext& c, std::string_view slot);
bool param_bool(const InferContext& c, std::string_view slot, bool otherwise = false);
std::optional<double> param_float(const InferContext& c, std::string_view slot);
// In lower case.
std::optional<std::string> param_string(const InferContext& c, std::string_view slot);
std::optional<std::vector<int64_t>> param_ints(const InferContext& c, std::string_view slot);
// The element type that a string names ("fp16", "int32"); kUndefined when it is not known.
DType param_dtype(const InferContext& c, std::string_view slot);

// Result i has this element type and shape; nothing when the element type is not known.
inline void set_dims(InferContext& c, DType dtype, std::span<const Dim> dims, size_t i = 0) {
  if (dtype != DType::kUndefined) c.set(i, dtype, dims);
}

}  // namespace sardonyx::mil::rules
