// The evaluator as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/eval.h"

namespace sardonyx::python {

// sardonyx._sardonyx.evaluate(): runs a model on values that sardonyx._evaluate prepared.
// What the evaluator takes and gives, from and to Python: tensors of ir, lists, tuples.
EvalValue eval_value(nanobind::handle h);
nanobind::object eval_object(const EvalValue& v);

void bind_evaluate(nanobind::module_& m);

}  // namespace sardonyx::python
