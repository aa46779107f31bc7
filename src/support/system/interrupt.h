// Interrupting long work: the caller provides a check, and the work polls it.
#pragma once

#include <functional>

namespace sardonyx {

// Thrown to unwind interrupted work. It is no fault, so it is not a std::exception and error handlers do not
// catch it.
struct Interrupted {};

// While it lives, check_interrupt() on this thread calls `wanted`, at most every 50 ms. The innermost one
// applies.
class Interruptible {
 public:
  using Wanted = std::function<bool()>;
  explicit Interruptible(Wanted wanted);
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

 private:
  friend void ask_interrupt();
  Wanted wanted_;
  Interruptible* outer_;
  long long next_;  // time of the next check
};

// The innermost one on this thread, or null.
extern constinit thread_local Interruptible* interruptible;
void ask_interrupt();

// Throws Interrupted if the work should end. Costs a few nanoseconds; loops call it at least every few
// milliseconds.
inline void check_interrupt() {
  if (interruptible != nullptr) ask_interrupt();
}

}  // namespace sardonyx
