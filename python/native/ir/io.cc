// Reads and writes ONNX for Python's ir.
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include "native/ir/edit.h"
#include "native/unlocked.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace sardonyx::python {

namespace {

nb::object read_path(const std::string& path, bool map) { return wrap_model(Store::of(read_onnx(path, {.map = map}))); }

nb::object read_bytes(const nb::bytes& bytes, const std::string& folder) {
  std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  return wrap_model(Store::of(read_onnx_bytes(view, kept_alive(bytes), folder)));
}

// Removes a node from the model it was read into.
nb::object free_node(PyNode& n) {
  Node& node = live(n);
  if (node.linked()) unlink(*n.store, node);
  transfer(n.store, Store::make(), {n.ptr}, {});
  return nb::find(n);
}

nb::object free_graph(PyGraph& g) {
  transfer(g.store, Store::make(), {}, {&live(g)});
  return nb::find(g);
}

}  // namespace

std::shared_ptr<const void> kept_alive(const nb::bytes& bytes) {
  return {new nb::bytes(bytes), [](nb::bytes* b) {
            if (!Py_IsInitialized()) return;
            PyGILState_STATE state = PyGILState_Ensure();
            delete b;
            PyGILState_Release(state);
          }};
}

// Finds faults that only edits in Python can leave behind, and that a file cannot hold.
void check_complete(Store& s) {
  const Model& m = *s.model;
  auto fail = [&](Value& v, const std::string& reader) {
    std::vector<std::string> notes;
    if (s.tensors.contains(&v)) {
      notes.push_back("it has a const_value: add it to the graph, graph.initializers.add(value)");
    } else {
      notes.push_back("make it an input of the graph, or append the node that computes it");
    }
    throw Error(ErrorCode::kInvalidModel, fmt::format("{} reads {}, which nothing in the model defines", reader, describe(v)),
                std::move(notes));
  };
  auto open = [&](Value* v) {
    return v != nullptr && (v->kind() == ValueKind::kPlaceholder || (v->kind() == ValueKind::kResult && !v->def()->linked()));
  };
  for (const auto& f : m.functions()) {
    std::vector<Graph*> stack{&f->graph()};
    while (!stack.empty()) {
      Graph& g = *stack.back();
      stack.pop_back();
      for (Node& n : g.nodes()) {
        for (const Use& u : n.operands()) {
          if (open(u.value)) fail(*u.value, describe(n));
        }
        for (const Body& b : n.bodies()) stack.push_back(b.graph);
      }
      for (size_t i = 0; i < g.outputs().size(); ++i) {
        if (open(g.output(i))) fail(*g.output(i), fmt::format("output {} of {}", i, describe(g)));
      }
    }
  }
}

void bind_ir_io(nb::module_& m) {
  m.def("read_path", &read_path);
  m.def("read_bytes", &read_bytes);
  m.def("free_node", &free_node);
  m.def("free_graph", &free_graph);
  // Both work on a copy whose nodes inference has checked: nodes that people build or read are unchecked.
  m.def("verify", [](PyModel& self, bool types) {
    check_complete(*self.store);
    const Unlocked others_may_run;
    if (!types) return verify(*self.ptr, {.types = false});
    const auto copy = clone_model(*self.ptr);
    ValueFacts facts;
    infer_model(*copy, facts, /*tolerant=*/false);
    verify(*copy);
  });
  m.def("warnings", [](PyModel& self) {
    check_complete(*self.store);
    const Unlocked others_may_run;
    const auto copy = clone_model(*self.ptr);
    ValueFacts facts;
    infer_model(*copy, facts, /*tolerant=*/true);
    return warnings(*copy);
  });
  m.def("check_complete", [](PyModel& self) { check_complete(*self.store); });
}

}  // namespace sardonyx::python
