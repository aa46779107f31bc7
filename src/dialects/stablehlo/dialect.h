// The stablehlo dialect: a StableHLO module as a model. One function per `func.func`, the entry first; one op
// per operation of StableHLO, with its name, and those of CHLO in the domain "chlo". Operands are the
// operation's; a list of operands is spread. The operation set is the one of StableHLO 1.20.
//
// - Attributes have the names and kinds of the operation's generic form, and all are present: readers fill in
//   defaults. Integers and arrays of them are i64 and ints (window_reversal too, as 0 and 1), dense elements
//   of rank 2 (padding) are a tensor, enumerations and symbols are strings ("LT", "FLOAT"), structures
//   (#stablehlo.gather<...>) are named tuples with all their fields, in the order of the specification. An
//   absent compare_type is the one of the operands' element type. Attributes that the operation does not
//   define, as custom calls have, are kept as they are.
// - Hints are dropped: precision_config, algorithm, result_accuracy, mhlo.* and sdy.* (the operation
//   sharding_constraint too), and of custom calls the layouts, tilings and aliases.
// - Regions are bodies, named as the operation names them: `cond` and `body` of while, `true_branch` and
//   `false_branch` of if, `branches` (one each) of case, `body` of reduce and reduce_window, `comparator` of
//   sort, `update_computation` of scatter, `select` and `scatter` of select_and_scatter, `computation` of
//   map. They may use values of the graphs around them. The operands of the terminator are the body's
//   results. Ports of bodies have no names.
// - `constant` is no node: its value is a constant of the graph.
// - A call of a function is the op `call` of the domain "func" with the string attribute `callee`.
// - A dynamic dimension `?` is a size of its own, without a name, in each type where it occurs: nothing says
//   that two are equal. Inputs of a function that jax.export wrote have the names of their sizes.
// - The entry is the function "main", else the first public one, else the first. Its graph has the name of
//   the module or of the exported function.
// - Names of arguments are those of their locations, or of the arguments of the function that the entry
//   passes them on to, or "arg0"; results are "result", or "result0", "result1". String attributes of
//   arguments and results (jax.result_info, jax.global_constant) are metadata of ports. Provenance is taken
//   from locations.
// - There are no types for tokens, tuples and quantized elements: readers refuse them by name.
//
// There are no type rules here: a module has the type of every result. What is known beyond that (sizes that
// are computed from others) is worked out when the model is lowered.
// Source: https://openxla.org/stablehlo/spec.
#pragma once

#include "sardonyx/op.h"

namespace sardonyx::stablehlo {

// Registers the table with the process; op ids begin at `first_id`, the number of ops registered before.
// Returns the number of ops. Called once, by register_all_dialects().
uint32_t register_dialect(uint32_t first_id);

}  // namespace sardonyx::stablehlo
