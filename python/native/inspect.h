#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

void bind_inspect(nanobind::module_& m);

}  // namespace sardonyx::python
