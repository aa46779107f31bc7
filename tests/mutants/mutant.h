// What scripts/mutate.py writes into copies of the passes: every mutant of a file is compiled at once, and
// the environment says which one is awake. Only the copies include this.
#pragma once

#include <type_traits>
#include <utility>

namespace sx_mutant {

// Whether this mutant is the one that SX_MUTANT names; remembers that somebody asked (SX_MUTANT_REACHED=FILE,
// one number per line).
bool awake(int id);

inline bool no(int id, bool v) { return awake(id) != v; }

// A number becomes the next one, a truth value the other.
template <class T>
T other(int id, T v) {
  if (!awake(id)) return v;
  if constexpr (std::is_same_v<T, bool>) {
    return !v;
  } else if constexpr (std::is_floating_point_v<T>) {
    return v == 0 ? T(0.25) : v * T(1.25);
  } else {
    return static_cast<T>(v + 1);
  }
}

// f of two operands, or of the same in the other order.
template <class F, class A, class B>
auto swapped(int id, F&& f, A&& a, B&& b) -> decltype(f(std::forward<A>(a), std::forward<B>(b))) {
  if (awake(id)) return f(std::forward<B>(b), std::forward<A>(a));
  return f(std::forward<A>(a), std::forward<B>(b));
}

}  // namespace sx_mutant
