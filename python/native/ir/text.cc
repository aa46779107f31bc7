// Prints and parses graphs for Python's ir.
#include <nanobind/stl/string_view.h>

#include "native/ir/store.h"
#include "sardonyx/infer.h"

namespace sardonyx::python {

namespace {

// Infers types by the operators' rules, and declares untyped graph results with them.
std::vector<std::string> infer_types(PyModel& self) {
  Model& m = *self.ptr;
  ValueFacts facts;
  std::vector<std::string> messages = infer_model(m, facts, /*tolerant=*/true);
  for (const auto& f : m.functions()) {
    if (f.get() != &m.main()) continue;  // functions declare no types
    std::vector<Graph*> stack{&f->graph()};
    while (!stack.empty()) {
      Graph& g = *stack.back();
      stack.pop_back();
      for (size_t i = 0; i < g.outputs().size(); ++i) {
        Port& port = g.output_port(i);
        if (port.declared == nullptr) port.declared = g.output(i)->type();
      }
      for (Node& n : g.nodes()) {
        for (const Body& b : n.bodies()) stack.push_back(b.graph);
      }
    }
  }
  return messages;
}

}  // namespace

void bind_ir_text(nb::module_& m) {
  m.def("infer_types", &infer_types);
  m.def("graph_text", [](PyGraph& self) { return print(live(self)); });
  m.def("model_text", [](PyModel& self) { return print(*self.ptr); });
}

}  // namespace sardonyx::python
