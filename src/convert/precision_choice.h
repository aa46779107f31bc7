// Chooses the types of weights and values by the error that they cause: the option max_error.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/convert.h"

namespace sardonyx {

struct PrecisionChoice {
  // What was tried: f32, f16, then weights of fewer bits, in the order of the trials.
  std::vector<PrecisionPoint> curve;
  size_t chosen = 0;                // the point of `curve` with the fewest bytes within the bound
  std::vector<PassRequest> passes;  // make the model of that point from the one that was given
  Calibration learned;              // what these passes learn from
  std::vector<std::string> warnings;
};

// Tries types on `runs` (those of `options.calibrate`), or on two random ones if there are none, and
// measures how far results get from those of `m`, an ONNX model in single precision whose passes have run.
// First it computes in half precision, unless `request` has the option precision=f32; then it narrows single
// weights of the main graph, to learn what each costs; then many together, by the bytes that they save for
// their error, as many as stay within `options.max_error`. Errors of single weights are taken as independent;
// what is chosen was measured as a whole. `request` has made `m`.
//
// Weights learn from the first half of given runs, rounded down, so that others measure what was learned.
//
// Throws kUnsupported for a model without results of floats, and what the runs throw.
PrecisionChoice choose_precision(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs);

}  // namespace sardonyx
