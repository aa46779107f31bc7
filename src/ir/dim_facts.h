// Facts that a user states about sizes, stored as ranges of symbols.
#pragma once

#include <string_view>

#include "sardonyx/dim.h"

namespace sardonyx {

// Records a relation such as "B >= 2" or "4*T + 1 <= 513" (>=, <=, ==) by narrowing the range of its symbol.
// Returns false, with no effect, if it relates several symbols or is not linear: such a fact may be true, but
// ranges cannot express it. Throws kParse if the text is not a relation, kInvalidArgument if no size
// satisfies it.
bool assume(Dims& dims, std::string_view relation);

}  // namespace sardonyx
