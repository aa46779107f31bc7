// Orders nodes and constants independently of the compiler that built Sardonyx.
//
//   b.Div(b.Sin(x), b.Cos(x))      C++ leaves open which of the two arguments is made first, and compilers differ.
//
// So the nodes of one expression are sorted afterwards, as a walk from its results over operands from left to
// right would visit them. A lowering does this at its end for each node of its source, the worklist after
// each rule that fired, and the pipeline after each walk.
//
//   a batch   nodes of one lowering, rule or walk, whose ids are one range: ids count upwards as nodes are made
//   1. rank   from the end of the graph to its beginning, note for each node of a batch its first user
//   2. walk   from nodes in the order of their ranks, operands first and left to right; then from those without users
//   3. link   uses of all nodes again in that order, since rules may walk users
//
// Graphs nested in a batch come before the graphs around them, because their order decides in which order
// they use outer values. Ids stay, and so do nodes outside batches. No lowering makes ops with effects.
// Two do not use this, and name operands before they use them: the passes of Core ML, whose order of ops is a
// contract with coremltools, and the lowering of StableHLO, where the order tells which node introduces an
// open size.
//
// Tested by arrange_test.cc (two orders become one) and tests/cpp/making_order_test.cc (the lowerings to ONNX
// and Core ML and the passes of ONNX, shuffled).
#pragma once

#include <cstdint>
#include <span>

#include "sardonyx/ir.h"
#include "support/shuffled.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// Arranges all graphs of the model. Batch k holds the nodes with ids from starts[k] (ascending) up to the
// next start; smaller ids are in no batch. Adjacent nodes of one batch may swap, and nothing else moves.
// Relinks the uses of all nodes in batches in the new order. Ids stay the same. Linear time; not while a
// journal is open.
void arrange(Model& m, std::span<const uint32_t> starts);

// Arranges what a rule made for `results`: the nodes before `root` with ids from `first_new` on, and the
// nodes nested in them.
void arrange_before(Node& root, std::span<Value* const> results, uint32_t first_new);

// Moves initializers with ids from `first_new` on behind the others of their graph, in order of first use.
void arrange_constants(Model& m, uint32_t first_new);

// For tests: while it lives, this thread's batches are shuffled before they are arranged, as if expressions
// had been evaluated in another order. The written files must not change.
struct ShuffledMaking : Shuffled, ThreadScoped<ShuffledMaking> {
  using Shuffled::Shuffled;
};

}  // namespace sardonyx
