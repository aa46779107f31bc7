// What the fusions of scales and shifts share: numbers per channel, and weights that are multiplied by them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// Per-channel numbers, in double precision.
using Channels = std::vector<double>;

// The elements of a value that is a constant, or a ConstantOfShape whose shape is known (then one element stands for all); else null.
// The second is what keeps a file of equal numbers small, so that only more of the same may take its place.
TensorPtr known_elements(const Value& v);
// What takes the place of `old`, whose elements were known: a constant, or again a ConstantOfShape. Null where the new elements differ
// from each other and the old did not.
Value* known_like(Rewriter& b, const Value& old, TensorPtr elements);
// The same for a tensor of one axis that takes the place of several such values: a ConstantOfShape if one of them is, and no other is a
// list as long.
Value* channel_constant(Rewriter& b, DType dtype, const Channels& values, std::span<const Value* const> olds);

// The first `count` elements, or the only one so many times.
Channels numbers(const Tensor& t, int64_t count);

// Whether weights of that type times these say the same as the product of both: nothing is infinite or no number by itself, nor becomes so
// for weights of a usual size.
bool can_scale(const Channels& factors, bool divide, DType dtype);

// Which channel a row of weights belongs to; a row is what has one factor. row / modulo / per_group * modulo + row % modulo, which is the
// row itself unless more is said.
struct ChannelRows {
  int64_t rows, modulo = rows, per_group = 1;
  int64_t channel(int64_t row) const { return row / modulo / per_group * modulo + row % modulo; }
};
// Weights whose channels are multiplied (or divided) by `factors`; rounded once. Large ones are deferred: computed when they are written.
TensorPtr scaled(const TensorPtr& t, ChannelRows rows, Channels factors, bool divide);

// The constant, of these sizes, is one number per channel of something of `rank` axes with `count` channels at `axis`, or one in all.
bool is_per_channel(const Type* constant, size_t rank, size_t axis, int64_t count);

}  // namespace sardonyx::onnx
