// The jax dialect: a jaxpr as a graph. One op per primitive, with JAX's names and parameters; rows in
// ops.def.
//
// There are no type rules: a jaxpr has the type of every result, and whoever makes a node sets them.
#pragma once

#include "sardonyx/op.h"

namespace sardonyx::jax {

// Registers the table with the process; op ids begin at `first_id`, the number of ops registered before.
// Returns the number of ops. Called once, by register_all_dialects().
uint32_t register_dialect(uint32_t first_id);

}  // namespace sardonyx::jax
