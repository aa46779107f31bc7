#include "support/interrupt.h"

#include <time.h>

#include <utility>

namespace sardonyx {
namespace {

constexpr long long kBetween = 50'000'000;

// Nanoseconds, with a resolution of a few milliseconds: reading it costs no more than a call.
long long now() {
  timespec t{};
#ifdef CLOCK_MONOTONIC_COARSE
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
#else
  ::clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

}  // namespace

constinit thread_local Interruptible* interruptible = nullptr;

Interruptible::Interruptible(Wanted wanted)
    : wanted_(std::move(wanted)), outer_(std::exchange(interruptible, this)), next_(now() + kBetween) {}

Interruptible::~Interruptible() { interruptible = outer_; }

void ask_interrupt() {
  Interruptible& here = *interruptible;
  const long long time = now();
  if (time < here.next_) return;
  here.next_ = time + kBetween;
  if (here.wanted_()) throw Interrupted();
}

}  // namespace sardonyx
