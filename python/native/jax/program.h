// A traced program on its way to ONNX, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// sardonyx._sardonyx.Program: a jaxpr that was read, and the functions that make and convert it.
void bind_program(nanobind::module_& m);

// Makes what the first jaxpr would make otherwise: tables of lowerings, and what is looked up in JAX, which must be there.
void prepare_program();

}  // namespace sardonyx::python
