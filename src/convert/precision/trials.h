// Runs copies of a model that have other types, and measures what changed.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/calibration.h"
#include "sardonyx/convert.h"

namespace sardonyx {

// How far the results of a run are from what they were. Infinite where they are not finite.
struct RunError {
  double worst = 0;  // as OptimizeOptions::max_error bounds it
  double usual = 0;  // the root mean square where that is the largest; chance has less of a say in it
};

class PrecisionTrials {
 public:
  // `m` and `runs`, of which there is one at least, must outlive this object. Throws kUnsupported for a model
  // without results of floats, and what the runs throw.
  PrecisionTrials(const Model& m, const Calibration& runs, ErrorMetric metric);

  RunModel prepare(const Model& m) const { return runs_.prepare(m); }
  // The error of each run. `more` follow the inputs of each.
  std::vector<RunError> errors(const RunModel& run, std::span<const EvalValue> more = {}, size_t most_runs = SIZE_MAX) const;
  // The same on the evaluator, which rounds after each node.
  std::vector<RunError> evaluated_errors(const Model& m) const;
  // The processor time of the first run, over that of the model before: the best of some, in turns.
  double time(const RunModel& run) const;

 private:
  using Results = std::vector<EvalValue>;

  RunError error(const Results& before, const Results& after) const;

  const Calibration& runs_;
  const ErrorMetric metric_;
  const RunModel original_;
  std::vector<Results> before_;
};

double worst_of(const std::vector<RunError>& errors);

}  // namespace sardonyx
