// A traced program on its way to ONNX, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// sardonyx._sardonyx.Program: a jaxpr that was read, and the functions that make and convert it.
void bind_program(nanobind::module_& m);

}  // namespace sardonyx::python
