// Runs of a model that passes may learn from: they choose scales by what values are there.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sardonyx/eval.h"

namespace sardonyx {

// Runs a model: its results, by position, for its inputs, by position.
using RunModel = std::function<std::vector<EvalValue>(std::span<const EvalValue>)>;

struct Calibration {
  std::vector<std::vector<EvalValue>> runs;  // inputs of the main graph, by position
  // Prepares a model for runs. Empty: the evaluator runs it.
  std::function<RunModel(const Model&)> runner = {};

  RunModel prepare(const Model& m) const;  // m must outlive the result
};

}  // namespace sardonyx
