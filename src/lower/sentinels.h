// Indices that a program itself puts out of bounds.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx {

// Whether a number outside of -size .. size-1 (any number that stands for a size, where `size` is symbolic) can reach `index`, a value of the jax dialect, on a
// way on which values are chosen, moved and ordered: the mark of an empty place in a list of neighbours, of a padded edge. JAX moves such an index inside when
// it reads an array, also where the program promises that there is none. What comes from outside, and what is computed, is believed.
bool may_hold_sentinels(const Value& index, Dim size);

}  // namespace sardonyx
