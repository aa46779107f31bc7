// The evaluator as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace sardonyx::python {

// sardonyx._sardonyx.evaluate(): runs a model on values that sardonyx._evaluate prepared.
void bind_evaluate(nanobind::module_& m);

}  // namespace sardonyx::python
