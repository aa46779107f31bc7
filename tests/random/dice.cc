#include "random/dice.h"

#include <cmath>
#include <limits>

namespace sardonyx::fuzz {

Dice::Dice(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {
  for (int i = 0; i < 8; ++i) random_();
}

double Dice::normal() { return std::normal_distribution<double>()(random_); }

double Dice::number() {
  static constexpr double kPlain[] = {0, 1, -1, 0.5, 2, 3, 6, -2, 0.125, 1e-5, 0.2, -0.0, 4};
  static constexpr double kOdd[] = {
      1e-40, 3e38, 1e30, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), NAN, 70000};
  if (odd_numbers && one_in(25)) return one_of(kOdd);
  return one_in(2) ? one_of(kPlain) : normal();
}

double Dice::extreme_number() {
  static constexpr double kExtremes[] = {
      0,   -0.0, 1e-30, 1e-12,  1e-8,  -1e-7, 6e-5, 1e-3, 1,    -1,
      255, -300, 2049,  2050.5, 65504, 7e4,   1e5,  1e10, -1e9, -std::numeric_limits<float>::max()};
  return one_of(kExtremes);
}

}  // namespace sardonyx::fuzz
