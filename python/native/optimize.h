// Passes, as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

#include "driver/optimize.h"

namespace sardonyx::python {

// What Python's fronts ask for, and what they show of what was done.
OptimizeOptions optimize_options(const nanobind::dict& d);
nanobind::dict report_dict(const OptimizeReport& r);

void bind_optimize(nanobind::module_& m);

}  // namespace sardonyx::python
