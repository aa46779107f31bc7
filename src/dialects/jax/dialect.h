// The jax dialect: a jaxpr as a graph. One op per primitive, with JAX's own names and parameters; rows in ops.def.
//
// There are no type rules: a jaxpr carries the type of every result, and whoever makes a node sets them.
#pragma once

#include "sardonyx/op.h"

namespace sardonyx::jax {

// Puts the table among the dialects of the process; op ids begin at `first_id`, the number of ops registered before.
// Returns the number of ops. To be called once, by register_all_dialects().
uint32_t register_dialect(uint32_t first_id);

}  // namespace sardonyx::jax
