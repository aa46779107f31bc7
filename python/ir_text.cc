// Showing and checking graphs from Python's ir.
#include <nanobind/stl/string_view.h>

#include "ir_store.h"

namespace sardonyx::python {

void bind_ir_text(nb::module_& m) {
  m.def("graph_text", [](PyGraph& self) { return print(live(self)); });
  m.def("model_text", [](PyModel& self) { return print(*self.ptr); });
}

}  // namespace sardonyx::python
