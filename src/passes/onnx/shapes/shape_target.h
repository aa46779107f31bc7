// What several passes on shapes ask.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The second operand of a Reshape (without allowzero) of x to type y, as a constant that says the same for every size: one -1 is what
// remains, 0 copies the operand's axis. nullopt if there is none that provably does.
//
// A size that alone is open is -1 even where 0 would do, if axes are split: behind a 0, onnxruntime knows that what attention turns and
// multiplies is of one size in all layers, and gives each shape a buffer of its own from the first layer to the last. Where it does not know, it
// takes the memory that was freed last, which is in the cache: everything but the products of ViT-B/16 takes a fifth less time.
std::optional<std::vector<int64_t>> constant_target(const Value& x, const Type& y, Dims& dims);

// A tensor of rank 0 or 1 of these integers.
TensorPtr int_tensor(DType dtype, bool scalar, std::span<const int64_t> values);
// Whether the node only gives what the graph returns another name, as files must: what it returns is not copied.
bool renames_result(const Node& n);
// The elements of an integer or boolean value, where inference knows them all and it may become a constant; null otherwise.
TensorPtr known_integers(const Value& v, const ValueFacts& facts);

// Axes of Squeeze, Unsqueeze, Reduce*, ..., attribute or operand, counted from the front of `rank` and in ascending order; nullopt when
// they are absent, empty, unknown or out of range.
std::optional<std::vector<int64_t>> axes_of(const Node& n, PassContext& context, size_t rank);

}  // namespace sardonyx::onnx
