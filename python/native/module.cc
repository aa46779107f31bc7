#include <nanobind/nanobind.h>

#include "convert/to_onnx.h"
#include "native/coreml/program.h"
#include "native/errors.h"
#include "native/evaluate.h"
#include "native/infer.h"
#include "native/inspect.h"
#include "native/ir/store.h"
#include "native/jax/program.h"
#include "native/optimize.h"
#include "sardonyx/version.h"
#include "support/system/system.h"

NB_MODULE(_sardonyx, m) {
  m.def("version", &sardonyx::version);
  m.def(
      "prepare",
      [] {
        static bool done = false;  // guarded by the interpreter lock
        if (done) return;
        static const char here = 0;
        sardonyx::sys::populate_code(&here);
        sardonyx::prepare_conversion();
        sardonyx::python::prepare_program();
        done = true;
      },
      "Maps the code of this module and makes the tables of lowerings and passes, once, so that a first export is like the "
      "next. Needs JAX.");
  sardonyx::python::bind_errors(m);
  sardonyx::python::bind_infer(m);
  sardonyx::python::bind_program(m);
  sardonyx::python::bind_optimize(m);
  sardonyx::python::bind_inspect(m);
  auto coreml = m.def_submodule("coreml", "Programs of Core ML; sardonyx.coreml is what people use.");
  sardonyx::python::bind_coreml(coreml);
  auto ir = m.def_submodule("ir", "Handles of graphs; sardonyx.ir is what people use.");
  sardonyx::python::bind_ir(ir);
  sardonyx::python::bind_evaluate(m);
}
