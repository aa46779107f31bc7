// Converts sardonyx::Error to Python's sardonyx.Error.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/error.h"

namespace sardonyx::python {

// Called once when the module loads.
void bind_errors(nanobind::module_& m);

// Throws an Error about an invalid argument.
[[noreturn]] void refuse(std::string message, std::vector<std::string> notes = {});

}  // namespace sardonyx::python
