// Type inference as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// sardonyx._sardonyx.infer_types(): what inference finds in a model, for tests and tools.
void bind_infer(nanobind::module_& m);

}  // namespace sardonyx::python
