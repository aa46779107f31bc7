// Indices that a program itself puts out of bounds.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx {

// Whether a number outside of -size .. size-1 can reach `index`, a value of the jax dialect, by being
// selected, moved or sorted. If `size` is symbolic, any number that stands for a size counts. Such a sentinel
// marks an empty place in a neighbour list, or a padded edge; JAX clamps it when it indexes an array, even if
// the program promises that all indices are in bounds. Inputs and computed numbers are assumed to be in
// bounds.
bool may_hold_sentinels(const Value& index, Dim size);

}  // namespace sardonyx
