// The jax dialect: a jaxpr as a graph. One op per primitive, with JAX's own names and parameters; rows in ops.def.
//
// There are no type rules: a jaxpr carries the type of every result, and whoever makes a node sets them.
#pragma once

#include "sardonyx/op.h"

namespace sardonyx::jax {

// Puts the table among the dialects of the process, its op ids after those that are known. To be called once.
void register_dialect();

}  // namespace sardonyx::jax
