// Infers types from scratch, after edits made the old types imprecise.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx {

// Whether infer_anew() may find more: a size or a rank is unknown, or a local function is called.
bool may_tell_more(Model& m);

// Infers all types, starting from the inputs. Unknown sizes get new identities: two results of one node now
// share a size, even if two nodes made them before, and a size that a file named in two ways gets one name.
// Ranks and numbers that are not found again are kept, since the node they came from may be gone. Returns
// whether a type changed (always true if a size is unknown) or an element of a value became known.
bool infer_anew(Model& m, ValueFacts& facts);

// Marks as unchecked, too, whatever the ill-typed nodes of a typed model are computed from, so that no pass
// changes it. Either such a node fails at run time, or inference is wrong about it: in both cases a runtime
// may load the model only as long as it knows no more about these values than it did.
void leave_ill_typed(Model& m);

}  // namespace sardonyx
