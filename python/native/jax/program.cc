#include "native/jax/program.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/unordered_set.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <variant>

#include "convert/debug_dump.h"
#include "convert/plugin.h"
#include "convert/to_onnx.h"
#include "dialects/onnx/runtimes/runtimes.h"
#include "io/onnx/apart.h"
#include "io/text/program_file.h"
#include "native/errors.h"
#include "native/ir/store.h"
#include "native/jax/jaxpr_import.h"
#include "native/jax/lowering_context.h"
#include "native/jax/values.h"
#include "native/jax/weight_names.h"
#include "native/to_coreml.h"
#include "native/unlocked.h"
#include "sardonyx/io.h"
#include "sardonyx/stablehlo.h"
#include "support/files/mapped_file.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::python {
namespace {

SourceDetail source_detail(const std::string& text) {
  if (text == "off") return SourceDetail::kOff;
  if (text == "line") return SourceDetail::kLine;
  if (text == "full") return SourceDetail::kFull;
  refuse(fmt::format("provenance=\"{}\" is not known", text), {"expected \"off\", \"line\" or \"full\""});
}

Normalization normalization_of(const std::string& text) {
  if (text == "auto") return Normalization::kAuto;
  if (text == "prefer_native") return Normalization::kPreferNative;
  if (text == "force_decomposed") return Normalization::kForceDecomposed;
  refuse(fmt::format("normalization=\"{}\" is not known", text),
         {"expected \"auto\", \"prefer_native\" or \"force_decomposed\""});
}

struct Program {
  ImportedJaxpr imported;
  Model& model() const { return *imported.model; }
};

// One primitive: name, number of equations, owner of its lowering ("": none), and the user's source lines,
// each once.
using PrimitiveUse = std::tuple<std::string, size_t, std::string, std::vector<std::string>>;

std::vector<PrimitiveUse> primitives(const Model& m, const LoweringRegistry& registry) {
  std::vector<PrimitiveUse> all;
  std::unordered_map<std::string_view, size_t> place;
  std::set<std::pair<size_t, std::string>> seen;
  std::vector<const Graph*> graphs{&m.graph()};
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const Node& n : graphs[i]->nodes()) {
      const std::string_view name = n.op().name;
      const auto [at, is_new] = place.try_emplace(name, all.size());
      if (is_new)
        all.emplace_back(name, 0, registry.find(name) != nullptr ? registry.origin(name) : "", std::vector<std::string>());
      auto& [primitive, count, origin, lines] = all[at->second];
      ++count;
      for (const Body& b : n.bodies()) graphs.push_back(b.graph);
      const Provenance& p = m.provenance(n.provenance());
      if (p.sources.empty() || p.sources[0].file.empty()) continue;
      const Source& s = p.sources[0];
      std::string line = fmt::format("{}:{}{}", s.file, s.line, s.function.empty() ? "" : fmt::format(" ({})", s.function));
      if (seen.emplace(at->second, line).second) lines.push_back(std::move(line));
    }
  }
  return all;
}

// The equations as text, one per line: primitive, types, parameters, source line.
std::string record(const Model& m) {
  std::string out;
  std::vector<const Graph*> todo{&m.graph()};
  auto types = [&](std::string& to, auto&& values) {
    std::string_view comma;
    for (const Value* v : values) {
      fmt::format_to(std::back_inserter(to), "{}{}", comma, m.types().to_string(v->type()));
      comma = ", ";
    }
  };
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    for (const Node& n : g->nodes()) {
      std::vector<const Value*> in, results;
      for (const Use& u : n.operands()) in.push_back(u.value);
      for (const Value& v : n.results()) results.push_back(&v);
      fmt::format_to(std::back_inserter(out), "{} ", n.op().name);
      types(out, in);
      out += " -> ";
      types(out, results);
      for (const NamedAttr& a : n.attrs().items()) {
        fmt::format_to(std::back_inserter(out), " {}={}", a.name, to_string(a.value, m.types()));
      }
      const Provenance& p = m.provenance(n.provenance());
      if (!p.sources.empty()) {
        fmt::format_to(std::back_inserter(out), "  # {}:{} ({})", p.sources[0].file, p.sources[0].line, p.sources[0].function);
      }
      out += '\n';
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  return out;
}

// A converted model in parts that are not yet serialized.
struct ApartModel {
  std::shared_ptr<const Model> model;
  Apart parts;
};

struct Converted {
  std::shared_ptr<Model> model;
  ConvertReport report;
  WriteOptions write;
  std::string steps;  // of the conversion as JSON, if it was asked for
};

// Calls `make` with the interpreter lock released. Output larger than protobuf allows is an error that names
// the way out.
auto within_limit(const Converted& c, auto make) {
  check_nesting(*c.model);
  const Unlocked others_may_run;
  try {
    return make();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    throw e.with_note("help: use return_mode=\"file\"");
  }
}

WriteOptions::Provenance write_provenance(SourceDetail detail) {
  switch (detail) {
    case SourceDetail::kOff: return WriteOptions::Provenance::kOff;
    case SourceDetail::kLine: return WriteOptions::Provenance::kLine;
    case SourceDetail::kFull: return WriteOptions::Provenance::kFull;
  }
  return WriteOptions::Provenance::kLine;
}

struct FileId {
  uint64_t inode = 0, size = 0;
};
FileId file_id(const std::string& path) {
  const FileStamp stamp = FileStamp::of(path).value_or(FileStamp{});
  return {stamp.inode, stamp.size};
}

LowerOptions::Provenance lower_provenance(SourceDetail detail) {
  switch (detail) {
    case SourceDetail::kOff: return LowerOptions::Provenance::kOff;
    case SourceDetail::kLine: return LowerOptions::Provenance::kLine;
    case SourceDetail::kFull: return LowerOptions::Provenance::kFull;
  }
  return LowerOptions::Provenance::kLine;
}

// Formats each input or result of the main graph as "x: f32[B,3]".
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

Converted convert_program(const Program& program, std::string name, int opset, std::vector<std::string> passes, bool strict,
                          const std::string& provenance, const std::string& normalization, const std::string& dump,
                          std::string target, nb::dict lowerings, bool outline, const std::vector<std::string>& libraries,
                          std::vector<std::pair<std::string, std::string>> pass_options, bool with_steps) {
  const SourceDetail detail = source_detail(provenance);
  ConvertOptions options{.lower = {.opset = opset,
                                   .target = std::move(target),
                                   .model_name = std::move(name),
                                   .provenance = lower_provenance(detail)},
                         .passes = {.passes = std::move(passes), .options = std::move(pass_options), .strict = strict},
                         .normalization = normalization_of(normalization),
                         .outline = outline};
  std::optional<DebugDump> dumping;
  std::optional<view::Steps> steps;
  Observers observers;
  if (!dump.empty()) observers.add(&dumping.emplace(dump));
  if (with_steps) observers.add(&steps.emplace("", options.lower.model_name));
  options.passes.observer = observers.get();
  Converted out;
  out.model = std::make_shared<Model>(DialectId::kOnnx);
  out.write.provenance = write_provenance(detail);
  LoweringRegistry registry(&LoweringRegistry::builtin());
  LateAttributes of_libraries;
  for (const std::string& path : libraries) load_plugin(path, registry, of_libraries);
  nb::list late;
  add_python_lowerings(registry, lowerings, program.imported.equations, out.model, late);
  options.after_passes = [&](Model&) {
    of_libraries.set();
    if (lowerings.size() == 0) return;
    nb::gil_scoped_acquire lock;
    set_late_attributes(late, out.model);
  };
  const Unlocked others_may_run;
  convert(program.model(), *out.model, options, registry, &out.report);
  if (steps) out.steps = steps->scene();
  return out;
}

void bind_jaxpr(nb::module_& m) {
  nb::class_<Program>(m, "Program", "A jaxpr that was read into Sardonyx's own graph.")
      .def(
          "text", [](const Program& p, bool provenance) { return print(p.model(), {.provenance = provenance}); },
          nb::arg("provenance") = false, "The program in text form.")
      .def(
          "save",
          [](const Program& p, const std::string& path) {
            const Unlocked others_may_run;
            save_program(p.model(), path);
          },
          nb::arg("path"), "Writes the program as text, and its constants beside it.")
      .def(
          "num_nodes", [](const Program& p) { return p.model().num_nodes(); }, "Equations, nested ones included.")
      .def(
          "op_counts", [](const Program& p) { return op_counts(p.model()); }, "Equations by primitive.")
      .def("inputs", [](const Program& p) { return ports(p.model(), p.model().graph().inputs()); })
      .def("outputs", [](const Program& p) { return ports(p.model(), p.model().graph().outputs()); })
      .def(
          "record", [](const Program& p) { return record(p.model()); }, "Its equations in text, one per line.")
      .def(
          "primitives",
          [](const Program& p, const std::vector<std::string>& libraries) {
            LoweringRegistry registry(&LoweringRegistry::builtin());
            LateAttributes late;
            for (const std::string& path : libraries) load_plugin(path, registry, late);
            return primitives(p.model(), registry);
          },
          nb::arg("libraries") = std::vector<std::string>{},
          "Per primitive: its name, how many equations it has, whose lowering (\"\": none), and the lines where they stand.")
      .def("constants", [](const Program& p) {
        // (type, address of the bytes) for each constant of the main graph, so that tests can see who owns
        // weights.
        nb::list out;
        for (const Value* v : p.model().graph().constants()) {
          out.append(nb::make_tuple(p.model().types().to_string(v->type()),
                                    reinterpret_cast<uintptr_t>(v->constant()->stored_bytes().data())));
        }
        return out;
      });
}

void bind_converted(nb::module_& m) {
  nb::class_<ApartModel>(m, "ApartModel", "A model's message, and the bytes of its large tensors apart from it.")
      .def("message", [](const ApartModel& a) { return nb::bytes(a.parts.message.data(), a.parts.message.size()); })
      .def_prop_ro("file_bytes", [](const ApartModel& a) { return a.parts.bytes; })
      .def("__len__", [](const ApartModel& a) { return a.parts.tensors.size(); })
      .def(
          "bytes_at",
          [](const ApartModel& a, uint64_t offset) {
            std::vector<std::byte> scratch;
            const auto bytes = a.parts.tensors.at(offset)->bytes(scratch);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "Of the tensor whose external data has that offset.");
  nb::class_<Converted>(m, "Converted", "An ONNX model that was made and not yet written.")
      .def_prop_ro("lower_seconds", [](const Converted& c) { return c.report.lower_seconds; })
      .def_prop_ro("not_converged", [](const Converted& c) { return c.report.passes.not_converged; })
      .def_prop_ro("optimize_seconds", [](const Converted& c) { return c.report.optimize_seconds; })
      .def("num_nodes", [](const Converted& c) { return c.model->num_nodes(); })
      .def("op_counts", [](const Converted& c) { return op_counts(*c.model); })
      .def(
          "serialize",
          [](const Converted& c) {
            const std::string bytes = within_limit(c, [&] { return serialize_onnx(*c.model, c.write); });
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes of an .onnx file.")
      .def(
          "serialize_apart",
          [](const Converted& c, uint64_t threshold) {
            return within_limit(c, [&] { return ApartModel{c.model, serialize_apart(*c.model, threshold, c.write)}; });
          },
          "The message, with tensors of `threshold` bytes and more left out.")
      .def("to_ir",
           [](const Converted& c) {
             nb::module_::import_("sardonyx.ir");
             return wrap_model(Store::of(c.model));
           })
      .def(
          "save",
          [](const Converted& c, const std::string& path, bool one_file) {
            WriteOptions options = c.write;
            if (one_file) options.external = WriteOptions::External::kNever;
            check_nesting(*c.model);
            const Unlocked others_may_run;
            const FileId old_data = file_id(path + ".data");
            write_onnx(*c.model, path, options);
            const FileId model = file_id(path), data = file_id(path + ".data");
            // A data file left by an earlier, larger export stays and is not counted.
            return model.size + (data.inode != old_data.inode ? data.size : 0);
          },
          nb::arg("path"), nb::arg("one_file") = false,
          "Writes an .onnx file, and its data file where one is needed. Returns their size.");
}

}  // namespace

Model* converted_model(nb::handle object) {
  return nb::isinstance<Converted>(object) ? nb::cast<Converted&>(object).model.get() : nullptr;
}

const Model* jax_program(nb::handle object) { return object.is_none() ? nullptr : &nb::cast<const Program&>(object).model(); }

void prepare_program() {
  LoweringRegistry::builtin();
  JaxClasses::get();
  SourceLines::prepare();
}

void bind_program(nb::module_& m) {
  bind_jaxpr(m);
  bind_converted(m);
  m.def("convert", &convert_program, nb::arg("program"), nb::arg("name") = "jax_model", nb::arg("opset") = 23,
        nb::arg("passes") = std::vector<std::string>{}, nb::arg("strict") = false, nb::arg("provenance") = "line",
        nb::arg("normalization") = "auto", nb::arg("dump") = "", nb::arg("target") = "", nb::arg("lowerings") = nb::dict(),
        nb::arg("outline") = false, nb::arg("libraries") = std::vector<std::string>{},
        nb::arg("pass_options") = std::vector<std::pair<std::string, std::string>>{}, nb::arg("with_steps") = false,
        "Lowers and optimizes a program.");
  m.def(
      "write_steps",
      [](const std::string& path, const Converted& c) {
        const Unlocked others_may_run;
        view::write_steps(path, c.steps);
      },
      nb::arg("path"), nb::arg("converted"), "Writes the steps of a conversion that was made with_steps, for `sardonyx view`.");
  bind_lowering_context(m);
  m.def(
      "load_plugin",
      [](const std::string& path) {
        LoweringRegistry registry;
        LateAttributes late;
        load_plugin(path, registry, late);
        return registry.names();
      },
      nb::arg("path"), "The primitives that a plugin in a shared object has lowerings for. It stays loaded.");
  m.def(
      "target",
      [](const std::string& name) {
        const onnx::Runtime& r = onnx::runtime_named(name);
        return nb::make_tuple(std::string(r.name), r.opset, r.ir_version);
      },
      nb::arg("name"), "A runtime by name: its own name, the newest opset and the newest IR version that it loads.");
  m.def(
      "load_program",
      [](const std::string& path) {
        const Unlocked others_may_run;
        return Program{ImportedJaxpr{load_program(path), {}}};
      },
      nb::arg("path"), "Reads what Program.save() wrote.");
  m.def(
      "read_stablehlo",
      [](const std::variant<std::string, nb::bytes>& module) {
        if (const auto* path = std::get_if<std::string>(&module)) {
          const Unlocked others_may_run;
          return Program{ImportedJaxpr{lower_stablehlo_to_jax(*load_stablehlo(*path)), {}}};
        }
        const auto& bytes = std::get<nb::bytes>(module);
        const std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
        const Unlocked others_may_run;  // the caller holds the bytes; constants are copied
        return Program{ImportedJaxpr{lower_stablehlo_to_jax(*read_stablehlo(view, nullptr)), {}}};
      },
      nb::arg("module"), "Reads a StableHLO module, a path or bytes, as a program of JAX's primitives.");
  m.def("weight_names", &weight_names, nb::arg("root"), nb::arg("jaxpr"),
        "A name per const of a ClosedJaxpr: where below `root` it is found, as a path of attributes, keys and positions; \"\" "
        "where it is not.");
  m.def(
      "import_jaxpr",
      [](nb::handle jaxpr, std::string name, std::vector<std::string> input_names, std::vector<std::string> output_names,
         std::vector<std::string> const_names, std::vector<size_t> nchw_inputs, std::vector<size_t> nchw_outputs,
         const std::string& provenance, std::vector<std::string> facts, std::vector<std::string> data_sizes,
         std::unordered_set<std::string> keep_equations) {
        return Program{import_jaxpr(jaxpr, {.name = std::move(name),
                                            .input_names = std::move(input_names),
                                            .output_names = std::move(output_names),
                                            .const_names = std::move(const_names),
                                            .nchw_inputs = std::move(nchw_inputs),
                                            .nchw_outputs = std::move(nchw_outputs),
                                            .provenance = source_detail(provenance),
                                            .facts = std::move(facts),
                                            .data_sizes = std::move(data_sizes),
                                            .keep_equations = std::move(keep_equations)})};
      },
      nb::arg("jaxpr"), nb::arg("name") = "jax_model", nb::arg("input_names") = std::vector<std::string>{},
      nb::arg("output_names") = std::vector<std::string>{}, nb::arg("const_names") = std::vector<std::string>{},
      nb::arg("nchw_inputs") = std::vector<size_t>{}, nb::arg("nchw_outputs") = std::vector<size_t>{},
      nb::arg("provenance") = "line", nb::arg("facts") = std::vector<std::string>{},
      nb::arg("data_sizes") = std::vector<std::string>{}, nb::arg("keep_equations") = std::unordered_set<std::string>{},
      "Reads a jax.core.ClosedJaxpr.");
}

}  // namespace sardonyx::python
