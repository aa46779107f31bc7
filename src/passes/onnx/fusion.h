// What the fusions share: questions about reductions and about what a fusion would leave behind.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// Every inner node that was matched is read by matched nodes only: all of them go when the root is replaced. Without that a fusion
// computes twice. Constants do not count.
bool goes_as_a_whole(const Match& m);

// The axes of a Reduce* node, counted from the front and in order, all of them when none are given; nullopt when they or the rank are
// not known. Attribute (before opset 13 or 18) or operand.
std::optional<std::vector<int64_t>> reduced_axes(const Node& reduce, PassContext& context);
// `axes` are the last ones of a tensor of that rank, without a gap; then the first of them, else nullopt.
std::optional<int64_t> trailing(std::span<const int64_t> axes, size_t rank);

// v provably has the shape that a reduction of x over `axes` with keepdims leaves.
bool has_kept_shape(const Value* v, const Value* x, std::span<const int64_t> axes);
// The same dtype and the same sizes, provably.
bool same_shape(const Value* a, const Value* b);

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

// A constant of the graph with this payload; small equal ones are shared.
inline Value* with_shape(Rewriter& b, const Value& constant, std::vector<int64_t> shape) {
  return b.constant(constant.constant()->reshaped(std::move(shape)));
}

}  // namespace sardonyx::onnx
