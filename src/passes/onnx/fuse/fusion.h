// Shared by the fusions: questions about reductions, views, and other users of matched values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dialects/onnx/readers.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// Whether only matched nodes use the results of matched nodes other than the root, so that all of them are
// dead after the replacement. Otherwise a fusion would compute twice. Does not count constants and `kept`,
// which the right side uses.
bool has_no_other_users(const Match& m, const Value* kept = nullptr);

// The first of `axes` if they are the last axes of a tensor of that rank without a gap; else nullopt.
std::optional<int64_t> trailing(std::span<const int64_t> axes, size_t rank);

// Whether v provably has the shape of a reduction of x over `axes` with keepdims. One number counts if that
// shape is all ones.
bool has_kept_shape(const Value* v, const Value* x, std::span<const int64_t> axes);
// Whether dtype and sizes are provably equal.
bool same_shape(const Value* a, const Value* b);

// Whether v is nowhere negative, derived from a few nodes before it. NaN counts as neither.
bool is_nonnegative(PassContext& context, const Value* v, int depth = 4);

// Whether guard_fusions writes this sum of two as Sum, and not as Add.
bool keeps_sum(const Node& sum);

// The number that a ConstantOfShape repeats, as a scalar; null if it is not known.
TensorPtr repeated_number(const Node& constant_of_shape);

// p, or p with another rank: for reductions without keepdims whose axes are restored.
Pattern reshaped(const Pattern& p);

// p * p in any spelling.
Pattern squared(const Pattern& p);

// --- operands of normalizations

// Whether v can be a scale or bias operand: exactly these dims, perhaps after ones, which a constant can
// drop.
bool fits_dims(const Value& v, std::span<const Dim> dims);
// v without those ones.
Value* trimmed(Rewriter& b, Value* v, size_t rank);
// A constant of ones; null if a dim is not known.
Value* ones(Rewriter& b, DType dtype, std::span<const Dim> dims);
// The dims that a LayerNormalization or RMSNormalization normalizes; nullopt if other results than the first
// are used.
std::optional<std::vector<Dim>> normalized_by(const Node& n);

// --- tracking axes through views

// One label per axis of a value; kOne for axes of size 1, which may appear and disappear.
using Labels = std::vector<int>;
inline constexpr int kOne = -1;
// Transpose, Reshape, Squeeze or Unsqueeze.
bool is_view(const Node& n);
// The operand's labels for a transpose, or for a view that only adds or drops axes of size 1; nullopt for
// other views.
std::optional<Labels> labels_above(const Node& view, const Labels& out);
// Moves v up to the source of single-use views in `graph` and updates the labels. Returns the number of
// views.
size_t climb(Value*& v, Labels& labels, const Graph* graph);

// The payload of `constant` in another shape, as a constant.
inline Value* with_shape(Rewriter& b, const Value& constant, std::vector<int64_t> shape) {
  return b.constant(constant.constant()->reshaped(std::move(shape)));
}

}  // namespace sardonyx::onnx
