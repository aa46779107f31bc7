#include "random/dice.h"

#include <cmath>
#include <limits>

namespace sardonyx {

double number(Dice& dice) {
  static constexpr double kPlain[] = {0, 1, -1, 0.5, 2, 3, 6, -2, 0.125, 1e-5, 0.2, -0.0, 4};
  static constexpr double kOdd[] = {
      1e-40, 3e38, 1e30, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), NAN, 70000};
  if (dice.odd_numbers && dice.one_in(25)) return dice.of(kOdd);
  return dice.one_in(2) ? dice.of(kPlain) : dice.normal();
}

}  // namespace sardonyx
