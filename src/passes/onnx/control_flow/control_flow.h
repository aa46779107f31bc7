// Moving nodes between a body and the graph around it.
#pragma once

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// Moves a node before another one, into its graph, with what is known of its values.
void move_before(Node& at, Node& n);

// Moves the nodes of `from` before `at`, in order, with what is known of their values; its constants become constants of at's graph.
// The inputs of `from` must have no readers any more; what it returns can be read from at's graph then, and `from` is empty.
void splice(Graph& from, Node& at, Rewriter& b);

// A node like `n`, before it, with the operands and those of its results that are named; takes the bodies of n and its results' readers,
// and n is erased. Results that are left out must have no readers.
Node& with_slots(Node& n, std::span<Value* const> operands, std::span<const size_t> results, const Attrs* attrs);

}  // namespace sardonyx::onnx
