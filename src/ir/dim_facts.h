// What a user states of sizes, as ranges of symbols.
#pragma once

#include <string_view>

#include "sardonyx/dim.h"

namespace sardonyx {

// Takes "B >= 2" or "4*T + 1 <= 513" (relations >=, <=, ==) as a fact: it narrows the range of its symbol. False, and nothing
// changed, when it relates several symbols or is not linear: true all the same, but no range says it. Throws kParse for what is
// no relation, kInvalidArgument when no size is left.
bool assume(Dims& dims, std::string_view relation);

}  // namespace sardonyx
