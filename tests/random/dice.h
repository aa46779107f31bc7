// Chance for random graphs. The same seed gives the same numbers on every system.
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
  // For a constant: a usual number, any, or now and then one that is NaN, infinite or near it.
  double number();
  bool odd_numbers = false;  // whether number() gives the latter

 private:
  std::mt19937_64 random_;
};

inline constexpr int64_t kSizes[] = {2, 3, 4, 5, 6, 7, 8};
inline constexpr DType kUsualFloats[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF32,
                                         DType::kF16, DType::kF64, DType::kBF16};

// What is thrown if a graph cannot be completed.
struct DeadEnd {};

// What `make` returns, or null if it came to a dead end or to types that do not fit.
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
