// For tests: an order drawn from a seed, where code normally follows the program's order.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace sardonyx {

class Shuffled {
 public:
  explicit Shuffled(uint64_t seed) : random_(seed) {}

  size_t below(size_t n) { return n < 2 ? 0 : static_cast<size_t>(random_() % n); }
  template <class T>
  void shuffle(std::span<T> list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace sardonyx
