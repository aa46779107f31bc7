// Native work without Python's lock: other threads may run, and Ctrl-C ends it.
#pragma once

#include <nanobind/nanobind.h>

#include "support/interrupt.h"

namespace sardonyx::python {

// Whether Python wants this thread to stop: a signal's handler raised. Its exception is then the thread's.
inline bool python_wants_end() {
  const nanobind::gil_scoped_acquire locked;
  return PyErr_CheckSignals() != 0;
}

// While it lives, Python's lock is free and check_interrupt() asks Python. The exception that a signal raised is what the caller sees:
// bind_errors() lets it through.
class Unlocked {
 public:
  Unlocked() : interruptible_(python_wants_end) {}

 private:
  nanobind::gil_scoped_release released_;  // taken back last
  Interruptible interruptible_;
};

}  // namespace sardonyx::python
