// Operators that no table has, for the warnings of a run.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// A warning for each unknown operator: its nodes stay as they are, and no rule looks through them.
std::vector<std::string> unknown_operators(Model& m);

}  // namespace sardonyx
