// Types found once more, for a graph that is no longer the one that they were found for.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx {

// Whether a size or a rank in the model is known by no number and no expression.
bool has_unknown_sizes(Model& m);

// Infers all types from the inputs on. Unknown sizes get new identities: two results that one node computes now have one size, which two
// nodes gave two. Ranks and numbers that are not found again are kept: the node that told them may be gone.
void infer_anew(Model& m, ValueFacts& facts);

}  // namespace sardonyx
