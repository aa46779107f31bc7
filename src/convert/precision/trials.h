// Runs copies of a model that have other types, and measures what changed.
#pragma once

#include <span>
#include <vector>

#include "inspect/value_errors.h"
#include "sardonyx/calibration.h"
#include "sardonyx/convert.h"

namespace sardonyx {

class PrecisionTrials {
 public:
  // `m` and `runs`, of which there is one at least, must outlive this object. Throws kUnsupported for a model
  // without results of floats, and what the runs throw.
  PrecisionTrials(const Model& m, const Calibration& runs, ErrorMetric metric);

  RunModel prepare(const Model& m) const { return runs_.prepare(m); }
  // The error of each run, the largest of all results: `worst` is what OptimizeOptions::max_error bounds.
  // `more` follow the inputs of each.
  std::vector<RelativeError> errors(const RunModel& run, std::span<const EvalValue> more = {},
                                    size_t most_runs = SIZE_MAX) const;
  // The same on the evaluator, which rounds after each node.
  std::vector<RelativeError> evaluated_errors(const Model& m) const;
  // The processor time of the first run, over that of the model before: the best of some, in turns.
  double time(const RunModel& run) const;

 private:
  using Results = std::vector<EvalValue>;

  RelativeError error(const Results& before, const Results& after) const;

  const Calibration& runs_;
  const ErrorMetric metric_;
  const RunModel original_;
  std::vector<Results> before_;
};

double worst_of(const std::vector<RelativeError>& errors);

}  // namespace sardonyx
