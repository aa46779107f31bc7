// Moving nodes between a body and the enclosing graph.
#pragma once

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// Moves `n` before `at`, into the graph of `at`, along with the value info of its results.
void move_before(Node& at, Node& n);

// Moves the nodes of `from` before `at`, in order, along with the value info of their results. Constants of
// `from` become constants of the graph of `at`. The inputs of `from` must have no users left. Afterwards
// `from` is empty and values that it returned can be used in the graph of `at`.
void splice(Graph& from, Node& at, Rewriter& b);

// Replaces `n` by a node with the given operands and only the listed results, in the same place, followed by
// `more` new results. The new node takes over the bodies of `n` and the users of those results; `n` is
// erased. Results that are not listed must have no users.
Node& with_slots(Node& n, std::span<Value* const> operands, std::span<const size_t> results, const Attrs* attrs,
                 size_t more = 0);

}  // namespace sardonyx::onnx
