// sardonyx.coreml: programs of Core ML.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

void bind_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
