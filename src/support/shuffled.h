// For tests: an order drawn from a seed, where code would else follow that of the program.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace sardonyx {

// While one lives, what asks current() on its thread takes things in another order. Each kind derives from it by its own name:
//
//   struct ShuffledWorklist : Shuffled<ShuffledWorklist> { explicit ShuffledWorklist(uint64_t seed) : Shuffled(seed) {} };
template <class Kind>
class Shuffled {
 public:
  ~Shuffled() { current_ = outer_; }
  Shuffled& operator=(const Shuffled&) = delete;

  // Of this thread, the innermost; null, as ever outside of tests: nothing is shuffled.
  static Shuffled* current() { return current_; }

  size_t below(size_t n) { return n < 2 ? 0 : static_cast<size_t>(random_() % n); }
  template <class T>
  void shuffle(std::span<T> list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  friend Kind;
  explicit Shuffled(uint64_t seed) : random_(seed), outer_(std::exchange(current_, this)) {}
  Shuffled(const Shuffled&) = delete;

  std::mt19937_64 random_;
  Shuffled* outer_;
  static inline thread_local Shuffled* current_ = nullptr;
};

}  // namespace sardonyx
