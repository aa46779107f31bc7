// Questions about shapes that several passes share.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// A constant second operand for a Reshape (without allowzero) of x to type y that is right for every size:
// one -1 stands for the remaining size, and 0 copies the operand's axis. nullopt if no such constant provably
// exists.
//
// If only one size is unknown and axes are split, that size becomes -1 even where 0 would do. Behind a 0,
// onnxruntime knows that attention's values have the same size in all layers, and gives each shape a buffer
// of its own from the first layer to the last. Without that knowledge it reuses the memory freed last, which
// is in the cache: everything except the products of ViT-B/16 takes a fifth less time.
std::optional<std::vector<int64_t>> constant_target(const Value& x, const Type& y, Dims& dims);

// A tensor of rank 0 (`scalar`) or 1 with these integers.
TensorPtr int_tensor(DType dtype, bool scalar, std::span<const int64_t> values);
// Whether the node is an Identity that only names a result of the graph. Files need it, so it is not a copy.
bool renames_result(const Node& n);
// The elements of an integer or boolean value if inference knows them all and the value may become a
// constant; else null.
TensorPtr known_integers(const Value& v, const ValueFacts& facts);

}  // namespace sardonyx::onnx
