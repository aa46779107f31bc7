// Python bindings of Core ML programs, for sardonyx.coreml.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// A program that Python treats as a whole: the objects of its graph are not exposed.
struct CoremlProgram {
  std::unique_ptr<Model> model;
};

void bind_coreml(nanobind::module_& m);

}  // namespace sardonyx::python
