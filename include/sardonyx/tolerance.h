// How far results of two models may differ.
#pragma once

namespace sardonyx {

// Replaces the bound of a class: |before - after| <= atol + rtol * |before|, as in numpy.allclose, plus a
// share of the largest element of that result.
struct Tolerance {
  double rtol = 0, atol = 0, of_largest = 0;
};

}  // namespace sardonyx
