#include "support/system/interrupt.h"

#include <utility>

#include "support/system/system.h"

namespace sardonyx {
namespace {

constexpr long long kBetween = 50'000'000;

// Nanoseconds, with a resolution of a few milliseconds: reading it costs no more than a call.
int64_t now() { return sys::coarse_nanoseconds(); }

}  // namespace

constinit thread_local Interruptible* interruptible = nullptr;

Interruptible::Interruptible(Wanted wanted)
    : wanted_(std::move(wanted)), outer_(std::exchange(interruptible, this)), next_(now() + kBetween) {}

Interruptible::~Interruptible() { interruptible = outer_; }

void ask_interrupt() {
  Interruptible& here = *interruptible;
  const int64_t time = now();
  if (time < here.next_) return;
  here.next_ = time + kBetween;
  if (here.wanted_()) throw Interrupted();
}

}  // namespace sardonyx
