// What the fusions share: questions about reductions and about what a fusion would leave behind.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// Only matched nodes use the results of matched nodes, but for the root: all of them are dead once it is replaced. Without that a fusion
// computes twice. Constants do not count, nor does `kept`, which the right side reads.
bool has_no_other_users(const Match& m, const Value* kept = nullptr);

// The axes of a Reduce* node, counted from the front and in order, all of them when none are given; nullopt when they or the rank are
// not known. Attribute (before opset 13 or 18) or operand.
std::optional<std::vector<int64_t>> reduced_axes(const Node& reduce, PassContext& context);
// `axes` are the last ones of a tensor of that rank, without a gap; then the first of them, else nullopt.
std::optional<int64_t> trailing(std::span<const int64_t> axes, size_t rank);

// v provably has the shape that a reduction of x over `axes` with keepdims leaves, or is one number where that shape is all ones.
bool has_kept_shape(const Value* v, const Value* x, std::span<const int64_t> axes);
// The same dtype and the same sizes, provably.
bool same_shape(const Value* a, const Value* b);

// The number that a ConstantOfShape repeats, without axes; null where it is not known.
TensorPtr repeated_number(const Node& constant_of_shape);

// p itself, or given a different rank: for reductions without keepdims whose axes are put back.
Pattern reshaped(const Pattern& p);

// p * p, however it is said.
Pattern squared(const Pattern& p);

// --- operands of normalizations

// A scale or bias that can be an operand: exactly these dims, perhaps after ones, which constants can lose.
bool fits_dims(const Value& v, std::span<const Dim> dims);
// Without those ones.
Value* trimmed(Rewriter& b, Value* v, size_t rank);
// A constant of ones; null when a dim is not known.
Value* ones(Rewriter& b, DType dtype, std::span<const Dim> dims);
// The dims that a LayerNormalization or RMSNormalization node normalizes, if only its first result is read.
std::optional<std::vector<Dim>> normalized_by(const Node& n);

// --- axes through changes of shape

// One label per axis of a value; kOne for axes of size 1, which may come and go.
using Labels = std::vector<int>;
inline constexpr int kOne = -1;
// Transpose, Reshape, Squeeze or Unsqueeze.
bool is_view(const Node& n);
// Labels of the operand of a transpose, or of a change of shape that only adds or drops axes of size 1; nullopt for other shapes.
std::optional<Labels> labels_above(const Node& view, const Labels& out);
// Goes to the value before all views of `graph` that are read once, and takes the labels along. Returns how many there were.
size_t climb(Value*& v, Labels& labels, const Graph* graph);

// A constant of the graph with this payload; small equal ones are shared.
inline Value* with_shape(Rewriter& b, const Value& constant, std::vector<int64_t> shape) {
  return b.constant(constant.constant()->reshaped(std::move(shape)));
}

}  // namespace sardonyx::onnx
