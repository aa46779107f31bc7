// Compares two graphs by evaluating both on seeded inputs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rewrite/pass.h"
#include "sardonyx/eval.h"
#include "sardonyx/tolerance.h"

namespace sardonyx {

struct ValueCheck {
  size_t runs = 0;                        // evaluations compared
  std::optional<std::string> difference;  // the difference and its inputs
  std::string skipped;                    // why nothing was compared
  double largest_error = 0;               // |before - after| over the floats of all runs
  std::string largest_at;                 // where it is; empty if no float changed
};

// Whether two evaluations may differ because of random draws: random operators, and Dropout that trains or
// may be told to.
bool is_random(const Model& m);

// One of the evaluations that compare_values() compares against.
struct SeededRun {
  uint64_t seed = 0;
  std::vector<EvalValue> inputs, results;
  std::vector<EvalValue> truth;  // for kRounds: results in double precision; empty where an operator has none
};

// The evaluations of `m` that compare_values() makes for this class. Inputs that do not suit the graph are
// skipped; `skipped` says why.
std::vector<SeededRun> seeded_runs(const Model& m, Numerics numerics, std::string& skipped);

// Gets the number of evaluations that are done, and of all, roughly.
using CompareProgress = std::function<void(size_t done, size_t total)>;

// Evaluates both models. Symbolic sizes take two values and 1. Inputs are random; for kExact they include
// NaN, infinities, -0 and denormals.
//  - kExact: same bits; any NaN equals any NaN.
//  - kRounds: measured against the graph in double precision, the error after is at most twice the error
//    before, plus 4 ulp of the largest magnitude of that result. Without a double-precision evaluation,
//    results differ by at most 16 ulp of that magnitude; f64 results may also differ by 16 times the effect
//    of moving every input by an ulp.
//  - kRelaxed: at most a thousandth of that magnitude.
// Integers, booleans and strings must be equal.
// `backwards` is for whole models. Where kExact does not ask for each bit, these run with the evaluator's
// fast products; where all inputs are floats, as many of the runs as take a second, and at least one of each
// kind of sizes. It relaxes kRounds, where rounding errors accumulate. The error before is then the largest
// in that result, since a single element may be exact by chance. It also allows four times the effect of
// moving inputs and constants by an ulp of their type: on random numbers, cancelling terms expose the
// rounding of constants that a rule merged.
ValueCheck compare_values(const Model& before, const Model& after, Numerics numerics, bool backwards = false,
                          const std::optional<Tolerance>& tolerance = std::nullopt, const CompareProgress& progress = {});

// The comparison behind --verify model, --verify pass and `sardonyx verify`.
inline ValueCheck compare_whole(const Model& before, const Model& after, Numerics numerics,
                                const std::optional<Tolerance>& tolerance = std::nullopt,
                                const CompareProgress& progress = {}) {
  return compare_values(before, after, numerics, /*backwards=*/true, tolerance, progress);
}

// The same for something else than a graph of that signature: after(inputs) gives its results.
ValueCheck compare_values(const Model& before, Numerics numerics,
                          const std::function<std::vector<EvalValue>(std::span<const EvalValue> inputs)>& after,
                          const std::optional<Tolerance>& tolerance = std::nullopt);

// The same for a rewrite about to be applied: `made` would replace the results of `root`. Evaluates the graph
// between them and the values outside `matched` and `fresh` (the new nodes). Integers are followed further
// back, since rules rely on facts about them.
ValueCheck compare_rewrite(const Node& root, std::span<Value* const> made, std::span<Node* const> matched,
                           std::span<Node* const> fresh, Numerics numerics);

}  // namespace sardonyx
