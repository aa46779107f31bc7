#include "coreml.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

// A program by itself: Python looks at it as a whole, and never at its graph's objects.
struct CoremlProgram {
  std::unique_ptr<Model> model;
};

std::unique_ptr<CoremlProgram> made(std::unique_ptr<Model> m) {
  return std::make_unique<CoremlProgram>(CoremlProgram{std::move(m)});
}

void count(const Graph& g, std::map<std::string, size_t>& ops) {
  for (const Node& n : g.nodes()) {
    ++ops[std::string(n.op().name)];
    for (const Body& b : n.bodies()) count(*b.graph, ops);
  }
}

std::map<std::string, size_t> op_counts(const CoremlProgram& p) {
  std::map<std::string, size_t> ops;
  for (const auto& f : p.model->functions()) count(f->graph(), ops);
  return ops;
}

std::vector<std::string> function_names(const CoremlProgram& p) {
  std::vector<std::string> names;
  for (const auto& f : p.model->functions()) names.push_back(f->name);
  return names;
}

std::vector<std::string> infer(CoremlProgram& p) {
  ValueFacts facts;
  return infer_model(*p.model, facts, /*tolerant=*/true);
}

}  // namespace

void bind_coreml(nb::module_& m) {
  nb::class_<CoremlProgram>(m, "Program")
      .def(
          "save", [](const CoremlProgram& p, const std::string& path) { write_coreml(*p.model, path); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("text", [](const CoremlProgram& p, bool full) { return print(*p.model, {.full_constants = full}); })
      .def("op_counts", &op_counts)
      .def("function_names", &function_names)
      .def("infer", &infer)
      .def("specification_version",
           [](const CoremlProgram& p) { return p.model->mil ? p.model->mil->specification_version : 0; });
  m.def(
      "load", [](const std::string& path, bool map) { return made(read_coreml(path, {.map = map})); },
      nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace sardonyx::python
