// Python bindings for sardonyx.coreml.apply_pass: passes on coremltools programs in memory.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

void bind_coreml_session(nanobind::module_& m);
void bind_coreml_idle(nanobind::module_& m);
void bind_coreml_names(nanobind::module_& m);

}  // namespace sardonyx::python
