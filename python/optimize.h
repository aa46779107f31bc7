// Passes, as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

void bind_optimize(nanobind::module_& m);

}  // namespace sardonyx::python
