#include "program.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/unordered_set.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "jax_values.h"
#include "jaxpr_import.h"

namespace sardonyx::python {
namespace {

SourceDetail source_detail(const std::string& text) {
  if (text == "off") return SourceDetail::kOff;
  if (text == "line") return SourceDetail::kLine;
  if (text == "full") return SourceDetail::kFull;
  refuse(fmt::format("provenance=\"{}\" is not known", text), {"expected \"off\", \"line\" or \"full\""});
}

struct Program {
  ImportedJaxpr imported;
  Model& model() const { return *imported.model; }
};

// "x: f32[B,3]" for each input or result of the main graph.
std::vector<std::string> ports(const Model& m, std::span<const Port> ports) {
  std::vector<std::string> out;
  for (const Port& p : ports) out.push_back(fmt::format("{}: {}", p.name.view(), m.types().to_string(p.declared)));
  return out;
}

std::unordered_map<std::string, size_t> op_counts(const Model& m) {
  std::unordered_map<std::string, size_t> counts;
  std::vector<const Graph*> todo;
  for (const auto& f : m.functions()) todo.push_back(&f->graph());
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    for (const Node& n : g->nodes()) {
      ++counts[std::string(n.op().name)];
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  return counts;
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<Program>(m, "Program", "A jaxpr that was read into Sardonyx's own graph.")
      .def(
          "num_nodes", [](const Program& p) { return p.model().num_nodes(); }, "Equations, nested ones included.")
      .def(
          "op_counts", [](const Program& p) { return op_counts(p.model()); }, "Equations by primitive.")
      .def("inputs", [](const Program& p) { return ports(p.model(), p.model().graph().inputs()); })
      .def("outputs", [](const Program& p) { return ports(p.model(), p.model().graph().outputs()); })
      .def("constants", [](const Program& p) {
        // (type, address of the bytes) of the main graph's constants: who owns weights can be seen.
        nb::list out;
        for (const Value* v : p.model().graph().constants()) {
          out.append(nb::make_tuple(p.model().types().to_string(v->type()),
                                    reinterpret_cast<uintptr_t>(v->constant()->stored_bytes().data())));
        }
        return out;
      });
  m.def(
      "import_jaxpr",
      [](nb::handle jaxpr, std::string name, std::vector<std::string> input_names, std::vector<std::string> output_names,
         std::vector<size_t> nchw_inputs, std::vector<size_t> nchw_outputs, const std::string& provenance,
         std::unordered_set<std::string> keep_equations) {
        return Program{import_jaxpr(jaxpr, {.name = std::move(name),
                                            .input_names = std::move(input_names),
                                            .output_names = std::move(output_names),
                                            .nchw_inputs = std::move(nchw_inputs),
                                            .nchw_outputs = std::move(nchw_outputs),
                                            .provenance = source_detail(provenance),
                                            .keep_equations = std::move(keep_equations)})};
      },
      nb::arg("jaxpr"), nb::arg("name") = "jax_model", nb::arg("input_names") = std::vector<std::string>{},
      nb::arg("output_names") = std::vector<std::string>{}, nb::arg("nchw_inputs") = std::vector<size_t>{},
      nb::arg("nchw_outputs") = std::vector<size_t>{}, nb::arg("provenance") = "line",
      nb::arg("keep_equations") = std::unordered_set<std::string>{}, "Reads a jax.core.ClosedJaxpr.");
}

}  // namespace sardonyx::python
