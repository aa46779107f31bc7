// Python bindings of type inference.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// Binds sardonyx._sardonyx.infer_types(), which returns the types that inference finds in a model. For tests
// and tools.
void bind_infer(nanobind::module_& m);

}  // namespace sardonyx::python
