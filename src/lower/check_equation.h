// What an equation says about itself: axes that its operands have. Programs that JAX traced are right; saved ones come from files.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx {

// Throws Error(kInvalidModel): no program that JAX traced has such an equation.
[[noreturn]] void contradicts(const Node& eqn, std::string_view what);

// Throws Error(kInvalidModel) for as many operands or results as the primitive never has.
void check_counts(const Node& eqn);

// Whether it is one of JAX's own primitives with parameters that name axes: those of other libraries may mean what they like by them.
bool has_known_axes(std::string_view primitive);

// For equations of these. Throws Error(kInvalidModel) when a parameter names an axis that the operand or the result does not have, or has
// not one entry for each.
void check_equation(const Node& eqn);

}  // namespace sardonyx
