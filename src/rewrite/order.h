// For tests: rules that fire in another order than users see, for what a rule claims must hold in any.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sardonyx {

// While it lives, the worklist of this thread takes nodes and rules in an order drawn from the seed instead of that of the graph and of the
// lists. What passes leave may then look different, and is worth the same.
class ShuffledWorklist {
 public:
  explicit ShuffledWorklist(uint64_t seed) : random_(seed), outer_(std::exchange(current_, this)) {}
  ~ShuffledWorklist() { current_ = outer_; }
  ShuffledWorklist(const ShuffledWorklist&) = delete;
  ShuffledWorklist& operator=(const ShuffledWorklist&) = delete;

  // Of this thread; null, as ever outside of tests: nothing is shuffled.
  static ShuffledWorklist* current() { return current_; }

  size_t below(size_t n) { return n < 2 ? 0 : static_cast<size_t>(random_() % n); }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::mt19937_64 random_;
  ShuffledWorklist* outer_;
  static inline thread_local ShuffledWorklist* current_ = nullptr;
};

}  // namespace sardonyx
