// An order of nodes and constants that does not depend on who compiled Sardonyx.
//
//   b.Div(b.Sin(x), b.Cos(x))      C++ leaves open which of the two arguments is made first, and compilers differ.
//
// So the nodes that one expression made are put in order afterwards: as a walk from its results would, over operands
// from left to right. The lowering does this when it ends, equation by equation, the worklist for each rule that fired,
// and the pipeline after each walk.
//
//   a batch   nodes of one equation, rule or walk: ids in one range, since ids count upwards as nodes are made
//   1. rank   from the end of the graph to its beginning, note for each node of a batch its first user
//   2. walk   from nodes in the order of their ranks, operands first and left to right; then from those without users
//   3. link   uses of all nodes again in that order, since rules may walk users
//
// Graphs nested in a batch come before the graphs around them: their order decides in which order they use what is
// outside. Ids, and nodes of no batch, stay. Core ML's ops and constants stay as they were made: their order is a
// contract with coremltools, and some have effects.
//
// Held by arrange_test.cc (two orders become one) and tests/cpp/making_order_test.cc (all lowerings and passes, shuffled).
#pragma once

#include <cstdint>
#include <span>

#include "sardonyx/ir.h"
#include "support/shuffled.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// Arranges all graphs of the model. Batch k holds the nodes with ids from starts[k] (ascending) to the next one; ids below the first are in none.
// Neighbours of one batch change places among each other, and nothing else moves.
// Uses of all nodes in batches are linked again in the new order. Ids stay as they were. Linear; not while a journal is open.
void arrange(Model& m, std::span<const uint32_t> starts);

// What a rule made for `results`: the nodes that stand before `root` and have ids from `first_new` on, and what is nested in them.
void arrange_before(Node& root, std::span<Value* const> results, uint32_t first_new);

// Initializers with ids from `first_new` on stand behind the others of their graph, in the order in which they are first read.
void arrange_constants(Model& m, uint32_t first_new);

// For tests: while it lives, this thread's batches are shuffled before they are arranged, as if expressions had been evaluated in
// another order. What is written must not change.
struct ShuffledMaking : Shuffled, ThreadScoped<ShuffledMaking> {
  using Shuffled::Shuffled;
};

}  // namespace sardonyx
