// sardonyx.info, check, diff and verify: thin bindings of the driver.
#include "native/inspect.h"

#include <map>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert/file_names.h"
#include "convert/interface/input_shapes.h"
#include "convert/read_source.h"
#include "inspect/compare_models.h"
#include "inspect/match_models.h"
#include "inspect/node_origin.h"
#include "inspect/node_search.h"
#include "native/coreml/program.h"
#include "native/ir/edit.h"
#include "native/options.h"
#include "native/unlocked.h"
#include "sardonyx/infer.h"
#include "sardonyx/inspect.h"
#include "sardonyx/io.h"
#include "support/files/mapped_file.h"
#include "support/printable.h"
#include "view/model_page.h"

namespace sardonyx::python {
namespace {

// A model from a file or from bytes, which `data` keeps alive, or a copy of an ir.Model or a Core ML program.
struct Source {
  nb::object data;
  std::unique_ptr<Model> model;

  explicit Source(const nb::object& of) : data(of) {
    if (nb::isinstance<CoremlProgram>(of)) {
      const Model& program = *nb::cast<const CoremlProgram&>(of).model;
      const Unlocked others_may_run;
      model = clone_model(program);
      return;
    }
    if (nb::isinstance<PyModel>(of)) {
      const auto& handle = nb::cast<const PyModel&>(of);
      check_complete(*handle.store);
      model = clone_model(*handle.ptr);
      return;
    }
    if (!nb::isinstance<nb::bytes>(of)) {
      const auto path = nb::cast<std::string>(of);
      const Unlocked others_may_run;
      model = read_source(path);
      return;
    }
    const auto bytes = nb::cast<nb::bytes>(of);
    const std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
    const Unlocked others_may_run;
    model = read_onnx_bytes(view, nullptr);
  }
};

nb::dict info(const nb::object& of, const nb::dict& input_shapes) {
  std::vector<InputShape> shapes;
  decode(input_shapes, shapes);
  const Source source(of);
  const Model& m = *source.model;
  ModelSummary s;
  {
    const Unlocked others_may_run;
    fix_input_shapes(*source.model, shapes);
    s = summarize(*source.model);
  }
  const ModelCounts& c = s.counts;
  nb::dict d;
  uint64_t file_bytes = 0;
  for (const auto& f : source_files(m)) file_bytes += f->size();
  if (nb::isinstance<nb::bytes>(of)) file_bytes = nb::len(of);
  d["file_bytes"] = file_bytes;
  d["format"] = m.specification_version ? "coreml" : "onnx";
  d["version"] = m.specification_version ? *m.specification_version : m.ir_version;
  nb::dict opsets;
  if (m.specification_version) {
    for (const auto& f : m.functions()) opsets[f->name.c_str()] = f->mil_opset;
  } else {
    for (const OpsetImport& i : m.opset_imports) opsets[i.domain.empty() ? "ai.onnx" : i.domain.c_str()] = i.version;
  }
  d["opsets"] = opsets;
  d["producer"] = m.producer_name.empty() ? std::string() : m.producer_name + " " + m.producer_version;
  const auto ports = [&](std::span<const Port> list) {
    nb::dict out;
    for (const Port& p : list) {
      const Value* v = p.value != nullptr ? p.value : p.use->value;
      out[nb::str(p.name.view().data(), p.name.view().size())] =
          m.types().to_string(p.declared != nullptr ? p.declared : v->type());
    }
    return out;
  };
  d["inputs"] = ports(m.graph().inputs());
  d["outputs"] = ports(m.graph().outputs());
  d["nodes"] = c.nodes;
  d["functions"] = m.functions().size() - 1;
  d["tensors"] = c.tensors;
  d["tensor_bytes"] = c.bytes;
  d["parameters"] = c.parameters;
  d["ops"] = c.ops;
  nb::dict sizes;
  for (const auto& size : s.sizes) sizes[size.name.c_str()] = nb::make_tuple(size.range.min, size.range.max);
  d["sizes"] = sizes;
  d["flops"] = s.all.flops;
  d["bytes_moved"] = s.all.bytes;
  d["peak_bytes"] = s.peak_bytes;
  nb::dict largest, modules, places;
  for (const auto& t : s.largest) largest[t.name.c_str()] = t.bytes;
  for (const auto& one : s.modules) modules[one.path.c_str()] = nb::make_tuple(one.nodes, one.parameters, one.bytes);
  for (const auto& p : s.places) places[p.name.c_str()] = p.reasons;
  d["largest_tensors"] = largest;
  d["modules"] = modules;
  d["oldest_runtime"] = s.oldest_runtime;
  d["not_run"] = places;
  return d;
}

// Of each graph, the main one first, its nodes without constants: name, operator, names of results, module
// path, source lines, and the positions of its bodies in the list.
nb::list node_origins(const nb::object& of) {
  const Source source(of);
  std::vector<const Graph*> graphs{&source.model->graph()};
  nb::list all;
  for (size_t next = 0; next < graphs.size(); ++next) {
    nb::list nodes;
    for (const Node& n : graphs[next]->nodes()) {
      if (n.has(Trait::kConstant)) continue;
      const NodeOrigin origin = origin_of(n);
      nb::list results, lines, bodies;
      for (const Value& v : n.results()) results.append(std::string(v.name().view()));
      for (const SourceLine& line : origin.lines) lines.append(to_string(line));
      for (const Body& b : n.bodies()) {
        bodies.append(graphs.size());
        graphs.push_back(b.graph);
      }
      nodes.append(
          nb::make_tuple(std::string(n.name().view()), std::string(n.op().name), results, origin.scope, lines, bodies));
    }
    all.append(nodes);
  }
  return all;
}

nb::dict check(const nb::object& of) {
  const Source source(of);
  std::vector<std::string> faults, warned;
  {
    const Unlocked others_may_run;
    ValueFacts facts;
    faults = infer_model(*source.model, facts, /*tolerant=*/true);
    sardonyx::verify(*source.model);
    for (std::string& message : warnings(*source.model)) {
      const bool said = !faults.empty() && message.starts_with("not checked");
      if (!said) warned.push_back(std::move(message));
    }
  }
  nb::dict d;
  d["nodes"] = source.model->num_nodes();
  d["faults"] = faults;
  d["warnings"] = warned;
  return d;
}

nb::dict diff(const nb::object& before, const nb::object& after) {
  const Source a(before), b(after);
  ModelDiff found;
  {
    const Unlocked others_may_run;
    found = diff_models(*a.model, *b.model);
  }
  const ModelMatch& nodes = found.nodes;
  const auto list = [](const std::vector<ModelDiff::Change>& all) {
    nb::dict out;
    for (const ModelDiff::Change& c : all) out[c.what.c_str()] = nb::make_tuple(c.before, c.after);
    return out;
  };
  nb::list lines;
  for (const auto& [side, text] : found.lines) {
    if (side != ' ') lines.append(std::string(1, side) + " " + text);
  }
  nb::dict d;
  d["same"] = found.same;
  d["interface"] = list(found.interface);
  d["ops"] = list(found.ops);
  d["tensor_bytes"] = nb::make_tuple(found.bytes_before, found.bytes_after);
  d["lines"] = lines;
  const auto label = [](const Node& n) { return nb::make_tuple(printable(std::string(n.op().name)), printable(label_of(n))); };
  nb::list moved, changed, removed, added;
  for (const auto& [x, y] : nodes.moved) moved.append(nb::make_tuple(label(*x), label(*y)));
  for (const NodeChange& c : nodes.changed) {
    nb::list what;
    for (const std::string& text : c.what) what.append(printable(text));
    changed.append(nb::make_tuple(label(*c.before), label(*c.after), what));
  }
  for (const Node* n : nodes.removed) removed.append(label(*n));
  for (const Node* n : nodes.added) added.append(label(*n));
  d["kept"] = nodes.same;
  d["renamed_constants"] = found.renamed;
  d["moved"] = moved;
  d["changed"] = changed;
  d["removed"] = removed;
  d["added"] = added;
  return d;
}

// Milliseconds by graph and node, in the order of node_origins(). Fewer nodes: the others took no time.
using Times = std::vector<std::vector<double>>;

std::optional<view::NodeMeasure> measure_of(const Model& m, const Times& times) {
  if (times.empty()) return std::nullopt;
  view::NodeMeasure measure{.name = "milliseconds", .by_node = {}};
  std::vector<const Graph*> graphs{&m.graph()};
  for (size_t g = 0; g < graphs.size() && g < times.size(); ++g) {
    size_t at = 0;
    for (const Node& n : graphs[g]->nodes()) {
      if (n.has(Trait::kConstant)) continue;
      for (const Body& b : n.bodies()) graphs.push_back(b.graph);
      if (at < times[g].size()) measure.by_node[&n] = times[g][at];
      ++at;
    }
  }
  return measure;
}

// The page of `sardonyx view`; with passes, of each step of that optimization.
std::string page(const nb::object& of, const std::string& title, const std::vector<std::string>& passes, const Times& times) {
  const Source source(of);
  const Unlocked others_may_run;
  view::require_page();
  ValueFacts facts;
  infer_model(*source.model, facts, /*tolerant=*/true);
  OptimizeOptions options;
  options.request.passes = passes;
  const auto measure = measure_of(*source.model, times);
  if (!passes.empty()) return view::steps_page(*source.model, title, options);
  return view::model_page(*source.model, title, {.measure = measure ? &*measure : nullptr});
}

std::string diff_page(const nb::object& before, const nb::object& after, const std::string& name_before,
                      const std::string& name_after, const Times& times_before, const Times& times_after) {
  const Source a(before), b(after);
  const Unlocked others_may_run;
  view::require_page();
  for (const Source* s : {&a, &b}) {
    ValueFacts facts;
    infer_model(*s->model, facts, /*tolerant=*/true);
  }
  const auto x = measure_of(*a.model, times_before), y = measure_of(*b.model, times_after);
  return view::diff_page(*a.model, *b.model, name_before, name_after, x ? &*x : nullptr, y ? &*y : nullptr);
}

nb::dict verify(const nb::object& before, const nb::object& after, const std::string& numerics, const std::string& target,
                std::optional<double> rtol, std::optional<double> atol) {
  const Source a(before), b(after);
  std::optional<Numerics> how;
  if (!numerics.empty())
    how = numerics == "exact" ? Numerics::kExact : numerics == "rounds" ? Numerics::kRounds : Numerics::kRelaxed;
  std::optional<Tolerance> tolerance;
  if (rtol || atol) tolerance = Tolerance{rtol.value_or(0), atol.value_or(0)};
  ModelComparison found;
  {
    const Unlocked others_may_run;
    found = compare_models(*a.model, *b.model, how, target, tolerance);
  }
  nb::dict d;
  d["numerics"] = found.judged;
  d["evaluations"] = found.runs;
  d["difference"] = found.difference;
  d["not_compared"] = found.runs == 0 ? found.skipped : std::string();
  d["largest_error"] = found.largest_error;
  d["largest_error_at"] = found.largest_at;
  d["runtime"] = found.runtime;
  d["load_problems"] = found.load_problems;
  return d;
}

}  // namespace

void bind_inspect(nb::module_& m) {
  m.def("info", &info, nb::arg("model"), nb::arg("input_shapes"), "What a model, a path or bytes, consists of.");
  m.def("node_origins", &node_origins, nb::arg("model"), "Where the nodes of each graph come from.");
  m.def("check", &check, nb::arg("model"), "What is wrong with a model.");
  m.def("page", &page, nb::arg("of"), nb::arg("title"), nb::arg("passes"), nb::arg("times") = Times(), "The page of a model.");
  m.def("diff_page", &diff_page, nb::arg("before"), nb::arg("after"), nb::arg("name_before"), nb::arg("name_after"),
        nb::arg("times_before") = Times(), nb::arg("times_after") = Times(), "The page of two models.");
  m.def("diff", &diff, nb::arg("before"), nb::arg("after"), "How the texts of two models differ.");
  m.def("verify", &verify, nb::arg("before"), nb::arg("after"), nb::arg("numerics"), nb::arg("target"), nb::arg("rtol").none(),
        nb::arg("atol").none(), "Whether two models compute the same on seeded inputs.");
  m.def(
      "half_share", [](const nb::object& of) { return computes_in_half(*Source(of).model) ? kHalfShare : 0.0; },
      nb::arg("model"), "How far results may be off, as a share of the largest element: 0 if nothing is in half precision.");
  m.def(
      "require_output_name", [](const std::string& path) { require_output_name(path, DialectId::kOnnx); }, nb::arg("path"),
      "Raises for a path that no ONNX model is written to.");
}

}  // namespace sardonyx::python
