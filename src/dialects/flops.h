// How much arithmetic a node does.
#pragma once

#include <optional>

#include "sardonyx/ir.h"

namespace sardonyx {

// Floating-point (or integer) operations of one execution, as an expression in the named sizes. nullopt where
// they are not known: open sizes, operators of other domains, and operators without a rule (flops.cc).
//
// The usual counting: a multiply-add is 2; an elementwise function is 1 per element of its result, whatever
// the function; a reduction is 1 per element of its operand; moving elements and sorting them is 0. Products
// of matrices, convolutions, attention and recurrent operators count their multiply-adds (and biases), not
// their activations. Nodes with bodies and calls count as 0: their bodies are counted where they are.
std::optional<Dim> flops(const Node& n);

// Whether the result is the operand's memory under another type: Reshape, Squeeze, Identity and the like.
bool is_view(const Node& n);

// Whether the node reads only the elements of operand 0 that it returns: Gather, Slice and the like.
bool is_selection(const Node& n);

}  // namespace sardonyx
