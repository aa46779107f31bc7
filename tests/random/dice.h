// Randomness for random graphs. The same seed gives the same numbers on every system.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <random>

#include "sardonyx/ir.h"

namespace sardonyx::fuzz {

class Dice {
 public:
  explicit Dice(uint64_t seed);
  int64_t below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  bool one_in(int64_t n) { return below(n) == 0; }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  template <class C>
  const auto& one_of(const C& c) {
    return c[static_cast<size_t>(below(std::ssize(c)))];
  }
  double normal();
  // A value for a constant: often a typical one, else any, and with odd_numbers sometimes NaN, infinite or
  // huge.
  double number();
  // Zero, the least and largest numbers of half precision, what rounds badly in it and what is beyond it.
  double extreme_number();
  bool odd_numbers = false;  // whether number() also gives NaN, infinities and the like

 private:
  std::mt19937_64 random_;
};

inline constexpr int64_t kSizes[] = {2, 3, 4, 5, 6, 7, 8};
inline constexpr DType kUsualFloats[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF32,
                                         DType::kF16, DType::kF64, DType::kBF16};

// Thrown when a graph cannot be completed.
struct DeadEnd {};

// Returns what `make` returns, or null if it reached a dead end or its types do not fit.
template <class Make>
std::unique_ptr<Model> model_or_null(const Make& make) {
  try {
    return make();
  } catch (const DeadEnd&) {
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
  }
  return nullptr;
}

}  // namespace sardonyx::fuzz
