// Python bindings of the passes.
#pragma once

#include <nanobind/nanobind.h>

#include "driver/optimize.h"

namespace sardonyx::python {

// Convert options from Python, and reports to Python.
OptimizeOptions optimize_options(const nanobind::dict& d);
nanobind::dict report_dict(const OptimizeReport& r);

void bind_optimize(nanobind::module_& m);

}  // namespace sardonyx::python
