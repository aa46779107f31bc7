// Conversion to Core ML, as Python asks for it.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>

#include "sardonyx/coreml.h"

namespace sardonyx::python {

// Converts a model that is in memory, and writes the package and what `options` ask for beside it. `jax`: the
// program that it was lowered from, or null.
ToCoremlReport written_as_coreml(const Model* jax, Model& onnx, const std::string& out, const nanobind::dict& options);
nanobind::dict report_dict(const ToCoremlReport& r);

// The ONNX model of a sardonyx.Converted, which a conversion changes; null for other objects.
Model* converted_model(nanobind::handle object);

void bind_to_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
