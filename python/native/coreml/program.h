// Python bindings of Core ML programs, for sardonyx.coreml.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

void bind_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
