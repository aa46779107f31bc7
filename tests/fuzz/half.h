// Checks of half precision on extreme values: nothing finite becomes infinite or NaN, errors come from
// rounding alone, and what is decided by elementwise arithmetic stays as it is.
#pragma once

#include "check.h"

namespace sardonyx::fuzz {

struct HalfStatistics {
  size_t graphs = 0, changed = 0;     // how many the pass changed
  size_t elements = 0, integers = 0;  // of results: floats with a bound, and integers that must be equal
};

// Computes the model in half precision and judges its results (half.cc says how). `is_calibrated`: the pass
// knows the ranges of values on the subject's inputs, which may be extreme. Otherwise it knows the constants
// alone, and inputs are standard normal.
std::optional<Failure> check_half(const Subject& s, bool is_calibrated, HalfStatistics* statistics = nullptr);

}  // namespace sardonyx::fuzz
