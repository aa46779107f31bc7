// The choice of layouts.
#pragma once

#include <span>

#include "rewrite/pass.h"

namespace sardonyx::layout {

// Chooses layouts so that transposes move the fewest elements. Returns whether anything changed.
//
// A *root* is a value that no transpose makes; transposes are the other layouts in which its users read it.
// Around each transpose, the nodes that could follow one of its two layouts form a region (region.h). A
// minimum cut of the region decides which of them do: an edge between a node that follows and one that does
// not costs the transpose between them, once per layout of a root (cost.h). What the cut finds is done if it
// costs less than what is there, for small and for large values of the symbols (apply.h). This repeats until
// nothing gets cheaper. Values that bodies tie together move as one node does, and what stands inside a loop
// costs as often as that runs.
bool minimize_transposes(std::span<Graph* const> graphs, PassContext& context);

}  // namespace sardonyx::layout
