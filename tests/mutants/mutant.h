// scripts/checks/mutate.py includes this in copies of the passes. All mutants of a file are compiled at once,
// and an environment variable selects the active one.
#pragma once

#include <type_traits>
#include <utility>

namespace sx_mutant {

// Whether SX_MUTANT names this mutant. Also records that it was reached (SX_MUTANT_REACHED=FILE, one number
// per line).
bool awake(int id);

inline bool no(int id, bool v) { return awake(id) != v; }

// Increments a number; negates a boolean.
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

// Calls f with its two operands in the given or the opposite order.
template <class F, class A, class B>
auto swapped(int id, F&& f, A&& a, B&& b) -> decltype(f(std::forward<A>(a), std::forward<B>(b))) {
  if (awake(id)) return f(std::forward<B>(b), std::forward<A>(a));
  return f(std::forward<A>(a), std::forward<B>(b));
}

}  // namespace sx_mutant
