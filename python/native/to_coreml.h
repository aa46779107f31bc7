// Conversion to Core ML, as Python asks for it.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>

#include "driver/to_coreml.h"

namespace sardonyx::python {

ToCoremlOptions to_coreml_options(const nanobind::dict& d);
nanobind::dict report_dict(const ToCoremlReport& r);

// The ONNX model of a sardonyx.Converted, which a conversion changes; null for other objects.
Model* converted_model(nanobind::handle object);

void bind_to_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
