// What an equation says about itself: axes that its operands have. Programs that JAX traced are right; saved ones come from files.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx {

// Throws Error(kInvalidModel) when a parameter names an axis that the operand or the result does not have, or has not one entry for each.
// Only JAX's own primitives are looked at.
void check_equation(const Node& eqn);

}  // namespace sardonyx
