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

// Whether d is a symbol, or a product of symbols, that counts as at least 1 by default: at run time it may be
// 0, as nobody stated a range.
bool is_nonempty_by_default(Dims& dims, Dim d);

// Whether a and b differ at run time, whatever the names of sizes stand for. Unlike Dims::compare(), a size
// with a name may be 0 here: a file may declare one for a result that turns out to be empty.
bool contradict(const Dims& dims, Dim a, Dim b);

}  // namespace sardonyx
