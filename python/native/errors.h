// sardonyx::Error becomes Python's sardonyx.Error.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/error.h"

namespace sardonyx::python {

// Called once by the module.
void bind_errors(nanobind::module_& m);

// The caller's mistake, in our words.
[[noreturn]] void refuse(std::string message, std::vector<std::string> notes = {});

}  // namespace sardonyx::python
