// Types found once more, for a graph that is no longer the one that they were found for.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx {

// Whether infer_anew() might tell more: a size or a rank is open, or a local function is called.
bool may_tell_more(Model& m);

// Infers all types from the inputs on. Unknown sizes get new identities: two results that one node computes now have one size, which two
// nodes gave two; a size that a file named in two ways gets one name. Ranks and numbers that are not found again are kept: the node that told
// them may be gone. Returns whether a type is another one now, which it is wherever a size is unknown, or an element of a value became known.
bool infer_anew(Model& m, ValueFacts& facts);

}  // namespace sardonyx
