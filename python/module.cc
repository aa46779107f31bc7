#include <nanobind/nanobind.h>

#include "errors.h"
#include "evaluate.h"
#include "infer.h"
#include "ir_store.h"
#include "program.h"
#include "sardonyx/version.h"

NB_MODULE(_sardonyx, m) {
  m.def("version", &sardonyx::version);
  sardonyx::python::bind_errors(m);
  sardonyx::python::bind_infer(m);
  sardonyx::python::bind_program(m);
  auto ir = m.def_submodule("ir", "Handles of graphs; sardonyx.ir is what people use.");
  sardonyx::python::bind_ir(ir);
  sardonyx::python::bind_evaluate(m);
}
