// Reductions over some axes.
#pragma once

#include "eval/kernel.h"

namespace sardonyx::eval {

// x with the kept axes first and the reduced axes last, dense as [kept elements][reduced elements].
struct Grouped {
  Array rows;
  int64_t count = 0;                // rows
  int64_t width = 0;                // elements in each
  std::vector<int64_t> shape;       // of the result, without the reduced axes
  std::vector<int64_t> kept_shape;  // with the reduced axes as 1
};
Grouped group(Call& c, const Array& x, const std::vector<bool>& reduced);

}  // namespace sardonyx::eval
