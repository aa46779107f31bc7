// Sets of operators, as bits: the quick test of what a model has against what a rule or a walk needs.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx {

class Graph;
class Model;

// A set of operators, ignoring versions. A dialect may have more operators than bits, so operators share
// bits: a set may appear to contain more than was added, never less.
using OpBits = std::bitset<256>;
// The operators of the model's nodes, or of the graph's without its bodies.
OpBits op_bits(const Model& m);
OpBits op_bits(const Graph& g);
// The operators of these names in the dialect's own domain; a name that ends in '*' matches every name with
// that prefix. Throws kInternal for unknown names.
OpBits op_bits(std::span<const std::string_view> names, DialectId dialect);
// The operator with this id, in any version; all bits for an operator that no table knows.
OpBits op_bits(uint32_t id, DialectId dialect);

}  // namespace sardonyx
