// Whether two graphs compute the same: evaluates both on seeded inputs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rewrite/pass.h"
#include "sardonyx/eval.h"

namespace sardonyx {

struct ValueCheck {
  size_t runs = 0;                        // evaluations that were compared
  std::optional<std::string> difference;  // what differs, on which inputs
  std::string skipped;                    // why nothing was compared
};

// Whether two evaluations may differ, in what they draw: operators that are random by trait, and a Dropout that trains or may be told to.
bool is_random(const Model& m);

// One evaluation by which compare_values() judges.
struct SeededRun {
  uint64_t seed = 0;
  std::vector<EvalValue> inputs, results;
  std::vector<EvalValue> truth;  // for kRounds: results in double precision; empty where an operator has none
};

// The evaluations of `m` that compare_values() makes for that class. Inputs that do not suit the graph are left out, and `skipped` says why.
std::vector<SeededRun> seeded_runs(const Model& m, Numerics numerics, std::string& skipped);

// Symbolic sizes take two values and 1. Inputs are random; where the pass claims kExact, NaN, infinities, -0 and denormals are among them.
//  - kExact: same bits, any NaN is a NaN.
//  - kRounds: with the graph in double precision as truth, the error after is at most twice the error before, plus 4 ulp of the largest
//    magnitude of that result. Where there is no such evaluation, the results differ by at most 16 ulp of it; of f64, by 16 times what
//    moving every input by an ulp changes besides.
//  - kRelaxed: by at most a thousandth of it.
// Integers, booleans and texts are the same always.
// `backwards` also allows kRounds four times what moving inputs and constants by an ulp of their type changes: on random numbers, terms that cancel
// show the rounding of constants that a rule merged.
ValueCheck compare_values(const Model& before, const Model& after, Numerics numerics, bool backwards = false);

// The same for one rewrite that is about to happen: `made` would take the place of the results of `root`. Evaluates what lies between
// both and the values outside of `matched` and `fresh` (the nodes that were made). Integers are followed further back, since rules
// rely on what is known of them.
ValueCheck compare_rewrite(const Node& root, std::span<Value* const> made, std::span<Node* const> matched,
                           std::span<Node* const> fresh, Numerics numerics);

}  // namespace sardonyx
