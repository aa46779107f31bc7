// Releases the interpreter lock around native work, so that other threads run and Ctrl-C stops it.
#pragma once

#include <nanobind/nanobind.h>

#include "support/system/interrupt.h"

namespace sardonyx::python {

// Whether a signal handler raised and this thread must stop. The handler's exception is then pending on the
// thread.
inline bool python_wants_end() {
  const nanobind::gil_scoped_acquire locked;
  return PyErr_CheckSignals() != 0;
}

// Releases the interpreter lock while it lives, and makes check_interrupt() ask Python about signals. The
// exception that a signal handler raised reaches the caller: bind_errors() lets it through.
class Unlocked {
 public:
  Unlocked() : interruptible_(python_wants_end) {}

 private:
  nanobind::gil_scoped_release released_;  // reacquired last
  Interruptible interruptible_;
};

}  // namespace sardonyx::python
