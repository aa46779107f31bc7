// Chance for random graphs: what both ways of making them draw from.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "sardonyx/ir.h"

namespace sardonyx {

inline constexpr int64_t kSizes[] = {2, 3, 4, 5, 6, 7, 8};
inline constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kF64, DType::kBF16};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  double normal() { return normal_(random_); }
  bool odd_numbers = true;  // constants may be NaN, infinite, or near it
  template <class T, size_t N>
  T of(const T (&list)[N]) {
    return list[below(N)];
  }
  template <class List>
  auto of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

// What is thrown where a graph cannot be made further.
struct DeadEnd {};

// A number for a constant: a usual one, any, or now and then an odd one.
double number(Dice& dice);

// What `make` gives, or null where this try came to nothing: a dead end, or types that do not fit.
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

}  // namespace sardonyx
