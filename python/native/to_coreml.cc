#include "native/to_coreml.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <tuple>

#include "convert/debug_dump.h"
#include "convert/to_coreml.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "native/coreml/program.h"
#include "native/ir/edit.h"
#include "native/options.h"
#include "native/unlocked.h"
#include "sardonyx/io.h"
#include "support/system/stopwatch.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::python {

namespace nb = nanobind;

namespace {

using python::decode;

void decode(nb::handle given, CoremlPrecision& to) {
  const auto name = nb::cast<std::string>(given);
  to = name == "f16" ? CoremlPrecision::kF16 : name == "int8" ? CoremlPrecision::kI8 : CoremlPrecision::kF32;
}

void decode(nb::handle given, std::vector<CoremlImage>& to) {
  for (auto& [port, color, scale, bias] :
       nb::cast<std::vector<std::tuple<std::string, std::string, double, std::vector<double>>>>(given)) {
    const std::optional<CoremlColor> known = coreml_color_of(color);
    if (!known) refuse_image(port + ":" + color);
    to.push_back({port, *known, scale, bias});
  }
}

void decode(nb::handle given, std::vector<CoremlFloat>& to) {
  for (auto& [port, is_half] : nb::cast<std::vector<std::pair<std::string, bool>>>(given))
    to.push_back({port, is_half ? DType::kF16 : DType::kF32});
}

// By name: the lowest and the largest number, or None.
void decode(nb::handle given, std::vector<SizeBounds>& to) {
  using End = std::optional<int64_t>;
  for (auto& [name, ends] : nb::cast<std::map<std::string, std::pair<End, End>>>(given))
    to.push_back({name, ends.first, ends.second});
}

void decode(nb::handle given, std::vector<DefaultSize>& to) {
  for (auto& [name, size] : nb::cast<std::map<std::string, int64_t>>(given)) to.push_back({name, size});
}

void decode(nb::handle given, std::vector<EnumeratedShapes>& to) {
  for (auto& [input, shapes] : nb::cast<std::vector<std::pair<std::string, std::vector<std::vector<int64_t>>>>>(given))
    to.push_back({input, shapes});
}

void decode(nb::handle given, std::vector<CoremlState>& to) {
  for (auto& [input, result] : nb::cast<std::vector<std::pair<std::string, std::string>>>(given)) to.push_back({input, result});
}

// A file, or texts and numbers; the names of the label and of the probabilities.
void decode(nb::handle given, std::optional<CoremlClassifier>& to) {
  if (given.is_none()) return;
  const auto [file, texts, numbers, label, probabilities] =
      nb::cast<std::tuple<std::string, std::vector<std::string>, std::vector<int64_t>, std::string, std::string>>(given);
  to = CoremlClassifier{file.empty() ? texts : read_class_labels(file), numbers, label, probabilities};
}

void decode(nb::handle given, CoremlMetadata& to) {
  std::tie(to.author, to.license, to.version, to.description, to.user_defined) = nb::cast<
      std::tuple<std::string, std::string, std::string, std::string, std::vector<std::pair<std::string, std::string>>>>(given);
}

ToCoremlOptions to_coreml_options(const nb::dict& d) {
  ToCoremlOptions o;
#define SX_OPTION(field, ...) SX_DECODE(d, field, o)
#define SX_KEYWORD(...)
#include "convert/coreml_options.def"
#undef SX_KEYWORD
#undef SX_OPTION
  return o;
}

nb::dict report_dict(const ToCoremlReport& r) {
  nb::dict d;
  d["nodes"] = r.nodes;
  d["ops"] = r.ops;
  d["renamed"] = r.renamed;
  d["open_sizes"] = r.open_sizes;
  d["assumed_upper_bound"] = kAssumedUpperBound;
  d["single"] = r.single;
  d["not_converged"] = r.not_converged;
  d["integers"] = r.integers;
  nb::dict stages;
  stages["read"] = r.read_seconds;
  stages["prepare"] = r.prepare_seconds;
  stages["lower"] = r.lower_seconds;
  stages["optimize"] = r.optimize_seconds;
  stages["write"] = r.write_seconds;
  d["stages"] = stages;
  return d;
}

// A model to convert: the native one of Python's object, or what it is read from.
struct Source {
  std::string name, path;
  std::shared_ptr<const void> keepalive;  // of the bytes
  std::span<const std::byte> bytes;
  std::unique_ptr<Model> own;
  Model* model = nullptr;

  // What stays in memory does not refer to the file, which may change.
  void read(bool stays) {
    if (model != nullptr) return;
    if (keepalive != nullptr) {
      own = read_onnx_bytes(bytes, keepalive, "");
      verify(*own);
    } else if (own == nullptr) {
      own = read_for_coreml(path, {.map = !stays});
    }
    model = own.get();
  }
};

// `source`: a path, an ONNX file's bytes, an ir.Model (which is copied, as a conversion changes it), or a
// Converted.
Source source_of(std::string name, nb::handle source) {
  Source s{.name = std::move(name)};
  if (Model* converted = converted_model(source)) {
    s.model = converted;
  } else if (nb::isinstance<nb::str>(source)) {
    s.path = nb::cast<std::string>(source);
  } else if (nb::isinstance<PyModel>(source)) {
    const auto& of = nb::cast<const PyModel&>(source);
    check_complete(*of.store);
    s.own = clone_model(*of.ptr);
    verify(*s.own);
  } else {
    const auto bytes = nb::cast<nb::bytes>(source);
    s.bytes = {reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()};
    s.keepalive = kept_alive(bytes);
  }
  return s;
}

// Converts one model, or several as the functions of one program. Writes the program if `out` is not empty,
// and what the options ask for beside it. `jax`: the program that the model was lowered from, or null.
// Returns the reports, and the program if it was not written.
nb::tuple convert(const std::vector<std::pair<std::string, nb::object>>& models, bool is_joined, const std::string& out,
                  const nb::dict& given, const nb::object& jax) {
  ToCoremlOptions options = to_coreml_options(given);
  const auto folder = nb::cast<std::string>(given["dump"]), trace = nb::cast<std::string>(given["trace"]);
  const Model* program = jax_program(jax);
  std::vector<Source> sources;
  for (const auto& [name, source] : models) sources.push_back(source_of(name, source));
  std::optional<DebugDump> dump;
  std::optional<view::Steps> steps;
  Observers observers;
  if (!folder.empty()) observers.add(&dump.emplace(folder));
  if (!trace.empty()) {
    view::check_steps_name(trace);
    observers.add(&steps.emplace(out.empty() ? "model.mlpackage" : out));
  }
  options.observer = observers.get();
  std::vector<ToCoremlReport> reports;
  std::unique_ptr<Model> mil;
  {
    const Unlocked others_may_run;
    if (!out.empty()) check_coreml_name(out);
    if (program != nullptr && options.observer != nullptr) options.observer->stage("program", *program);
    Stopwatch watch;
    for (Source& s : sources) s.read(out.empty());
    const double read_seconds = watch.lap();
    if (is_joined) {
      std::vector<CoremlFunction> functions;
      for (const Source& s : sources) functions.push_back({s.name, s.model});
      mil = functions_to_coreml(functions, options, reports);
    } else {
      mil = to_coreml(*sources.at(0).model, options, &reports.emplace_back());
    }
    reports.at(0).read_seconds = read_seconds;
    watch.lap();
    if (!out.empty()) {
      std::vector<const Model*> files;
      for (const Source& s : sources) files.push_back(s.model);
      write_converted(*mil, out, files);
      reports.at(0).write_seconds = watch.lap();
      mil = nullptr;
    }
    if (steps) view::write_steps(trace, steps->scene());
  }
  nb::list all;
  for (const ToCoremlReport& r : reports) all.append(report_dict(r));
  return nb::make_tuple(all, mil == nullptr ? nb::none() : nb::cast(std::make_unique<CoremlProgram>(std::move(mil))));
}

}  // namespace

void bind_to_coreml(nb::module_& m) {
  m.def("convert", &convert, nb::arg("models"), nb::arg("joined"), nb::arg("out"), nb::arg("options"),
        nb::arg("program").none());
  m.def("specification_version", &coreml_version_of, "That of a deployment target: 9 is iOS 18.");
  m.def("mil_lowerings", &mil_lowerings, "The ONNX operators that can be converted to Core ML.");
}

}  // namespace sardonyx::python
