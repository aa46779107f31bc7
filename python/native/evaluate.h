// Python bindings of the evaluator.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/eval.h"

namespace sardonyx::python {

// Convert the evaluator's inputs and results from and to Python: tensors of ir, lists, tuples.
EvalValue eval_value(nanobind::handle h);
nanobind::object eval_object(const EvalValue& v);

// Binds sardonyx._sardonyx.evaluate(), which runs a model on values that sardonyx._models.evaluate prepared.
void bind_evaluate(nanobind::module_& m);

}  // namespace sardonyx::python
