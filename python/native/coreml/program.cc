#include "native/coreml/program.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>

#include "convert/file_names.h"
#include "convert/half_report.h"
#include "convert/optimize.h"
#include "inspect/compare_models.h"
#include "io/added_nodes.h"
#include "io/coreml/mil_features.h"
#include "io/text/program_file.h"
#include "native/coreml/session.h"
#include "native/evaluate.h"
#include "native/ir/edit.h"
#include "native/optimize.h"
#include "native/to_coreml.h"
#include "native/unlocked.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

std::unique_ptr<CoremlProgram> made(std::unique_ptr<Model> m) {
  return std::make_unique<CoremlProgram>(CoremlProgram{std::move(m)});
}

void count(const Graph& g, std::map<std::string, size_t>& ops) {
  for (const Node& n : g.nodes()) {
    ++ops[std::string(n.op().name)];
    for (const Body& b : n.bodies()) count(*b.graph, ops);
  }
}

// As in a file of the program, where constants are ops.
std::map<std::string, size_t> op_counts(const CoremlProgram& p) {
  std::map<std::string, size_t> ops;
  for (const auto& f : p.model->functions()) count(f->graph(), ops);
  const AddedNodes added = added_nodes(*p.model);
  if (added.constants > 0) ops["const"] += added.constants;
  if (added.identities > 0) ops["identity"] += added.identities;
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

// Whether `inferred` is at least as precise as the declared type.
bool covers(const Type* inferred, const Type* declared) {
  if (declared == nullptr || inferred == declared) return true;
  if (inferred == nullptr || inferred->kind() != declared->kind()) return false;
  if (!declared->is_tensor()) return inferred->elements().size() == declared->elements().size();
  if (inferred->dtype() != declared->dtype()) return false;
  if (!declared->ranked()) return true;
  if (!inferred->ranked() || inferred->rank() != declared->rank()) return false;
  for (size_t i = 0; i < declared->rank(); ++i) {
    if (declared->dim(i).is_int() && !inferred->dim(i).is(declared->dim(i).value())) return false;
  }
  return true;
}

void compare(const Graph& a, const Graph& b, std::vector<std::string>& out) {
  Node* m = b.first();
  for (const Node& n : a.nodes()) {
    for (size_t i = 0; i < n.num_results(); ++i) {
      const Value &declared = *n.result(i), &inferred = *m->result(i);
      if (covers(inferred.type(), declared.type())) continue;
      out.push_back(fmt::format("{}: the file says {}, inference {}\n{}", n.op().name,
                                a.model().types().to_string(declared.type()), b.model().types().to_string(inferred.type()),
                                print(n)));
    }
    for (size_t i = 0; i < n.bodies().size(); ++i) compare(*n.bodies()[i].graph, *m->bodies()[i].graph, out);
    m = m->next();
  }
}

void forget(const Graph& g) {
  for (Node& n : g.nodes()) {
    for (const Body& b : n.bodies()) forget(*b.graph);
    if (n.has(Trait::kConstant)) continue;
    for (Value& v : n.results()) v.set_type(nullptr);
    n.set_unchecked(true);
  }
}

// The declared types that inference from the inputs alone does not reach, and the faults it finds.
std::vector<std::string> compare_types(const CoremlProgram& p) {
  const auto copy = clone_model(*p.model);
  for (const auto& f : copy->functions()) forget(f->graph());
  ValueFacts facts;
  std::vector<std::string> out = infer_model(*copy, facts, /*tolerant=*/true);
  for (size_t i = 0; i < p.model->functions().size(); ++i)
    compare(p.model->functions()[i]->graph(), copy->functions()[i]->graph(), out);
  return out;
}

// Core ML refuses sizes outside the ranges of the interface.
void check_ranges(const CoremlProgram& p, std::span<const EvalValue> values) {
  const std::vector<CoremlFeature> features = coreml_inputs(*p.model);
  const auto ports = p.model->graph().inputs();
  for (size_t i = 0; i < std::min(ports.size(), values.size()); ++i) {
    const Array* a = values[i].array();
    const auto f = std::ranges::find(features, ports[i].name.view(), &CoremlFeature::name);
    if (a == nullptr || f == features.end() || f->sizes.size() != a->shape().size()) continue;
    for (size_t axis = 0; axis < f->sizes.size(); ++axis) {
      const auto& [least, most] = f->sizes[axis];
      const int64_t size = a->shape()[axis];
      if (size >= least && size <= most.value_or(size)) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' is {}, and the program takes {} to {} at axis {}", ports[i].name.view(),
                              describe(values[i]), least, most ? fmt::format("{}", *most) : "any size", axis),
                  {"help: state other ranges when converting, as sizes=[\"T <= 512\"]"});
    }
  }
}

// Runs a function on the evaluator. Returns its results, followed by the final values of its states.
nb::list run(const CoremlProgram& p, nb::list inputs, const std::string& function) {
  const Function* f = function.empty() ? &p.model->main() : p.model->find_function("", function);
  if (f == nullptr) throw Error(ErrorCode::kInvalidArgument, fmt::format("the program has no function '{}'", function));
  std::vector<EvalValue> values;
  for (nb::handle h : inputs) values.push_back(eval_value(h));
  std::vector<EvalValue> results;
  {
    const Unlocked others_may_run;
    check_inputs(f->graph(), values);
    if (f == &p.model->main()) check_ranges(p, values);
    results = evaluate(*f, values, {.states_too = true});
    values.clear();
  }
  nb::list out;
  for (const EvalValue& v : results) out.append(eval_object(v));
  return out;
}

// Reports how half precision would change results, after runs on these inputs or on random ones.
nb::dict half_report_dict(const CoremlProgram& p, nb::list runs, size_t random_runs, uint64_t seed) {
  HalfReportRequest request{.runs = {}, .random_runs = random_runs, .seed = seed};
  for (nb::handle run : runs) {
    std::vector<EvalValue>& inputs = request.runs.emplace_back();
    for (nb::handle h : nb::cast<nb::list>(run)) inputs.push_back(eval_value(h));
  }
  HalfReport report;
  {
    const Unlocked others_may_run;
    const auto copy = clone_model(*p.model);  // inferring types changes the model
    report = half_report(*copy, request);
    request.runs.clear();
  }
  nb::list ops;
  for (const HalfReport::Op& op : report.ops) {
    nb::dict one;
    one["function"] = op.function;
    one["op"] = op.op;
    one["name"] = op.name;
    one["verdict"] = op.verdict;
    one["value"] = op.value;
    one["low"] = op.low;
    one["high"] = op.high;
    one["seen"] = op.seen;
    ops.append(one);
  }
  nb::dict d;
  d["ops"] = ops;
  d["safe"] = report.safe;
  d["runs"] = report.runs;
  d["not_run"] = report.not_run;
  d["ranges"] = report.ranges;
  return d;
}

std::vector<std::string> port_names(const CoremlProgram& p, const std::string& function, bool outputs) {
  const Function* f = function.empty() ? &p.model->main() : p.model->find_function("", function);
  if (f == nullptr) throw Error(ErrorCode::kInvalidArgument, fmt::format("the program has no function '{}'", function));
  std::vector<std::string> names;
  for (const Port& port : outputs ? f->graph().outputs() : f->graph().inputs()) names.emplace_back(port.name.view());
  return names;
}

// The element types of a function's inputs in order; kUndefined for what is no tensor or state.
std::vector<int> input_dtypes(const CoremlProgram& p, const std::string& function) {
  const Function* f = function.empty() ? &p.model->main() : p.model->find_function("", function);
  if (f == nullptr) throw Error(ErrorCode::kInvalidArgument, fmt::format("the program has no function '{}'", function));
  std::vector<int> dtypes;
  for (const Port& port : f->graph().inputs()) {
    const Type* t = port.declared != nullptr ? port.declared : port.value->type();
    if (t != nullptr && t->kind() == TypeKind::kState) t = t->element();
    dtypes.push_back(static_cast<int>(t != nullptr && t->is_tensor() ? t->dtype() : DType::kUndefined));
  }
  return dtypes;
}

// Inputs that are states: name, dtype as in the text form, shape (-1: unknown).
nb::list states(const CoremlProgram& p, const std::string& function) {
  const Function* f = function.empty() ? &p.model->main() : p.model->find_function("", function);
  if (f == nullptr) throw Error(ErrorCode::kInvalidArgument, fmt::format("the program has no function '{}'", function));
  nb::list out;
  for (const Port& port : f->graph().inputs()) {
    const Type* t = port.declared != nullptr ? port.declared : port.value->type();
    if (t == nullptr || t->kind() != TypeKind::kState || t->element() == nullptr) continue;
    std::vector<int64_t> shape;
    if (t->element()->is_tensor() && t->element()->ranked()) {
      for (Dim d : t->element()->dims()) shape.push_back(d.is_int() ? d.value() : -1);
    }
    out.append(nb::make_tuple(std::string(port.name.view()), static_cast<int>(t->element()->dtype()), shape));
  }
  return out;
}

std::unique_ptr<Model> read_path(const std::string& path, bool map) {
  return path.ends_with(".sx") ? load_program(path, map) : read_coreml(path, {.map = map});
}

// A program from a file, from the bytes of one or from memory. Weights are read from an open file when they
// are used, which is an error if the file changed in place.
std::unique_ptr<Model> read_program(const nb::object& source) {
  if (nb::isinstance<CoremlProgram>(source)) {
    const Model& program = *nb::cast<const CoremlProgram&>(source).model;
    const Unlocked others_may_run;
    return clone_model(program);
  }
  if (nb::isinstance<nb::bytes>(source)) {
    const auto bytes = nb::cast<nb::bytes>(source);
    const std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
    const std::shared_ptr<const void> kept = kept_alive(bytes);
    const Unlocked others_may_run;
    return read_coreml_bytes(view, kept);
  }
  const auto path = nb::cast<std::string>(source);
  const Unlocked others_may_run;
  return read_path(path, /*map=*/false);
}

// Runs passes on a path, on bytes or on a program, which is not changed. From path to path, weights stream.
// Returns the report, and the program if `out` is empty.
nb::tuple optimize(const nb::object& source, const std::string& out, const nb::dict& options) {
  PythonProgress progress(options);
  OptimizeOptions o = optimize_options(options, &progress);
  o.log_changes = true;
  OptimizeReport report;
  std::unique_ptr<Model> program;
  if (nb::isinstance<nb::str>(source) && !out.empty()) {
    const auto in = nb::cast<std::string>(source);
    const Unlocked others_may_run;
    report = optimize_coreml_file(in, out, o);
  } else {
    program = read_program(source);
    const Unlocked others_may_run;
    if (!out.empty()) require_output_name(out, DialectId::kMil);
    verify(*program);
    report = optimize_program(*program, o);
    if (!out.empty()) write_program(*program, out, o);
  }
  return nb::make_tuple(report_dict(report), out.empty() ? nb::cast(made(std::move(program))) : nb::none());
}

}  // namespace

void bind_coreml(nb::module_& m) {
  bind_coreml_session(m);
  bind_coreml_idle(m);
  bind_coreml_names(m);
  bind_to_coreml(m);
  m.def("optimize", &optimize, nb::arg("source"), nb::arg("out"), nb::arg("options"));
  nb::class_<CoremlProgram>(m, "Program")
      .def(
          "save", [](const CoremlProgram& p, const std::string& path) { write_coreml(*p.model, path); },
          nb::call_guard<Unlocked>())
      .def("text", [](const CoremlProgram& p, bool full) { return print(*p.model, {.full_constants = full}); })
      .def("op_counts", &op_counts)
      .def("function_names", &function_names)
      .def("infer", &infer)
      .def("run", &run)
      .def("half_report", &half_report_dict)
      .def("port_names", &port_names)
      .def("input_dtypes", &input_dtypes)
      .def("states", &states)
      .def("compare_types", &compare_types)
      .def("half_share", [](const CoremlProgram& p) { return computes_in_half(*p.model) ? kHalfShare : 0.0; })
      .def("specification_version", [](const CoremlProgram& p) { return p.model->specification_version.value_or(0); });
  m.def("load", [](const std::string& path, bool map) { return made(read_path(path, map)); }, nb::call_guard<Unlocked>());
  m.def(
      "load_bytes", [](const nb::bytes& bytes) { return made(read_program(bytes)); }, nb::arg("model"),
      "Of a model file without other files.");
}

}  // namespace sardonyx::python
