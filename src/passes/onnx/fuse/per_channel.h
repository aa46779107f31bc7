// Shared by the fusions of scales and shifts: numbers per channel, and weights multiplied by them.
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

// The elements of a constant, or of a ConstantOfShape of known shape (as a splat); else null. A
// ConstantOfShape keeps a model with repeated numbers small, so only another repeated number may replace it.
TensorPtr known_elements(const Value& v);
// The replacement of `old`, whose elements were known: a constant, or again a ConstantOfShape. Null if the
// new elements differ from each other and the old ones did not.
Value* known_like(Rewriter& b, const Value& old, TensorPtr elements);
// The same for a one-axis tensor that replaces several such values. Makes a ConstantOfShape if one of `olds`
// is one and none of them is a constant list of the same length.
Value* channel_constant(Rewriter& b, DType dtype, const Channels& values, std::span<const Value* const> olds);

// The first `count` elements, or the single element repeated.
Channels numbers(const Tensor& t, int64_t count);

// Whether scaling weights of this type by these factors in advance is safe: no factor is infinite or NaN, nor
// makes weights of usual size so.
bool can_scale(const Channels& factors, bool divide, DType dtype);

// Maps a row of weights to its channel. A row is a run of elements with one factor. By default the channel is
// the row itself; in general it is row / modulo / per_group * modulo + row % modulo.
struct ChannelRows {
  int64_t rows, modulo = rows, per_group = 1;
  int64_t channel(int64_t row) const { return row / modulo / per_group * modulo + row % modulo; }
};
// Weights with channels multiplied or divided by `factors`, rounded once. Large ones are deferred: computed
// when the model is written.
TensorPtr scaled(const TensorPtr& t, ChannelRows rows, Channels factors, bool divide);

// Whether a constant of this type is one number per channel of a value with `rank` axes and `count` channels
// at `axis`, or one number in all.
bool is_per_channel(const Type* constant, size_t rank, size_t axis, int64_t count);

}  // namespace sardonyx::onnx
