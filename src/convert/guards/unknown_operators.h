// Warns about operators that no table has.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// One warning per unknown operator: its nodes stay as they are, and no rule looks through them.
std::vector<std::string> unknown_operators(Model& m);

}  // namespace sardonyx
