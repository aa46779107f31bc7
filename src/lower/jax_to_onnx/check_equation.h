// Checks that an equation is consistent, for example that its operands have the axes that it names. Programs
// traced by JAX are; saved programs come from files and may not be.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx::jax_to_onnx {

// Throws Error(kInvalidModel): JAX never traces such an equation.
[[noreturn]] void contradicts(const Node& eqn, std::string_view what);

// Throws Error(kInvalidModel) if the primitive never has that many operands or results.
void check_counts(const Node& eqn);

// Whether `primitive` is one of JAX's own with parameters that name axes. Parameters of other libraries may
// mean anything.
bool has_known_axes(std::string_view primitive);

// For primitives with known axes. Throws Error(kInvalidModel) if a parameter names an axis that the operand
// or the result does not have, or does not have one entry per axis.
void check_equation(const Node& eqn);

}  // namespace sardonyx::jax_to_onnx
