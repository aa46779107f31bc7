// Reads structured parameters of jax equations: dimension numbers, pairs of sizes.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

// A tuple of integers inside another parameter; () is allowed.
std::vector<int64_t> ints_of(const Lowering& ctx, const Attr& a, std::string_view what);
// Field `name` of a named tuple such as ConvDimensionNumbers.
const Attr& field_of(const Lowering& ctx, const Attr& tuple, std::string_view name);
std::vector<int64_t> ints_field(const Lowering& ctx, const Attr& tuple, std::string_view name);
// ((low, high), ...), the form of `padding` and `padding_config`.
std::vector<std::vector<int64_t>> rows_of(const Lowering& ctx, const Attr& a, std::string_view what);

}  // namespace sardonyx::jax_to_onnx
