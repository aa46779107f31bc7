// Long work that somebody may want to end: its caller says how to ask, the work asks now and then.
#pragma once

#include <functional>

namespace sardonyx {

// Goes through the work that is to end. Nothing that handles errors catches it: it is no fault of what was going on, so it is no
// std::exception.
struct Interrupted {};

// While it lives, check_interrupt() on this thread asks `wanted`, at most every 50 ms. The innermost one counts.
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
  long long next_;  // of the clock that is read: not before then
};

// This thread's, or null.
extern constinit thread_local Interruptible* interruptible;
void ask_interrupt();

// Throws Interrupted if the work is to end. Costs a few nanoseconds; loops call it at least every few milliseconds.
inline void check_interrupt() {
  if (interruptible != nullptr) ask_interrupt();
}

}  // namespace sardonyx
