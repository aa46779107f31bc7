// A traced program on its way to ONNX, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// Binds sardonyx._sardonyx.Program, a jaxpr that was read, and the functions that create and convert it.
void bind_program(nanobind::module_& m);

// Builds in advance what the first jaxpr would build: lowering tables, and objects looked up in JAX, which
// must be installed.
void prepare_program();

}  // namespace sardonyx::python
