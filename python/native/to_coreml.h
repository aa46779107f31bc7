// Conversion to Core ML, as Python asks for it.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// The ONNX model of a sardonyx.Converted, which a conversion changes; null for other objects.
Model* converted_model(nanobind::handle object);
// The model of a traced program; null for None.
const Model* jax_program(nanobind::handle object);

void bind_to_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
