// Chooses the types of weights and values by the error that they cause: the option max_error.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/calibration.h"
#include "sardonyx/convert.h"

namespace sardonyx {

struct PrecisionChoice {
  std::vector<PrecisionPoint> curve;  // what was tried, in this order; f32 first
  size_t chosen = 0;                  // the point of `curve` that the model gets
  double bound = 0;                   // that errors of `curve` have to stay within: max_error less a margin
  std::vector<PassRequest> passes;    // make the model of that point from the one that was given
  Calibration learned;                // what these passes learn from
  std::vector<std::string> warnings;
};

// Tries types on `runs` (those of `options.calibrate`), or on two random ones if there are none, and
// measures how far results get from those of `m`, an ONNX model in single precision whose passes have run.
// `request` has made `m`.
//
// What a model computes in comes first: half precision, but for the parts that cost most where the whole is
// too much; single precision; and, where `options.runner` tells times, integers of 8 bits. With the option
// precision=f32 of `request`, it is single precision alone. Then weights are narrowed: single ones of the
// main graph, to learn what each costs; then many together, by the bytes that they save for their error, as
// many as stay within the bound; the others take f16. Errors of single weights are taken as independent; each
// point was measured as a whole.
//
// The bound is below max_error by as much as errors differ from run to run, since other inputs than these
// will come; a metric of the user's own has no such margin. The smallest model within is chosen, or the
// smallest that computes in other types, if it has at most a tenth more bytes and takes at most 0.8 of the
// time.
//
// Weights and ranges learn from the first half of given runs, rounded down, so that others measure what was
// learned.
//
// Throws kUnsupported for a model without results of floats, and what the runs throw.
PrecisionChoice choose_precision(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs);

}  // namespace sardonyx
