#include "native/to_coreml.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <tuple>

#include "convert/debug_dump.h"
#include "convert/to_coreml.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "native/ir/edit.h"
#include "native/unlocked.h"
#include "sardonyx/io.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::python {

namespace nb = nanobind;

namespace {

template <class Value>
void decode(nb::handle given, Value& to) {
  to = nb::cast<Value>(given);
}

void decode(nb::handle given, CoremlPrecision& to) {
  to = nb::cast<std::string>(given) == "f16" ? CoremlPrecision::kF16 : CoremlPrecision::kF32;
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
#define SX_OPTION(field, ...) decode(d[#field], o.field);
#define SX_KEYWORD(...)
#include "convert/coreml_options.def"
#undef SX_KEYWORD
#undef SX_OPTION
  return o;
}

// Calls convert(options) without the interpreter's lock, watched by what `dump` and `trace` ask for.
template <class Convert>
void watched(const nb::dict& d, const std::string& out, const Convert& convert) {
  ToCoremlOptions o = to_coreml_options(d);
  const auto folder = nb::cast<std::string>(d["dump"]), trace = nb::cast<std::string>(d["trace"]);
  std::optional<DebugDump> dump;
  std::optional<view::Steps> steps;
  Observers observers;
  if (!folder.empty()) observers.add(&dump.emplace(folder));
  if (!trace.empty()) {
    view::check_steps_name(trace);
    observers.add(&steps.emplace(out));
  }
  o.observer = observers.get();
  const Unlocked others_may_run;
  convert(o);
  if (steps) view::write_steps(trace, steps->scene());
}

}  // namespace

nb::dict report_dict(const ToCoremlReport& r) {
  nb::dict d;
  d["nodes"] = r.nodes;
  d["ops"] = r.ops;
  d["renamed"] = r.renamed;
  d["open_sizes"] = r.open_sizes;
  d["assumed_upper_bound"] = kAssumedUpperBound;
  d["single"] = r.single;
  d["not_converged"] = r.not_converged;
  nb::dict stages;
  stages["read"] = r.read_seconds;
  stages["prepare"] = r.prepare_seconds;
  stages["lower"] = r.lower_seconds;
  stages["optimize"] = r.optimize_seconds;
  stages["write"] = r.write_seconds;
  d["stages"] = stages;
  return d;
}

ToCoremlReport written_as_coreml(const Model* jax, Model& onnx, const std::string& out, const nb::dict& options) {
  ToCoremlReport report;
  watched(options, out, [&](const ToCoremlOptions& o) {
    if (jax != nullptr && o.observer != nullptr) o.observer->stage("program", *jax);
    write_coreml(*to_coreml(onnx, o, &report), out);
  });
  return report;
}

namespace {

// A copy of an ir.Model, which a conversion may change.
std::unique_ptr<Model> copied(const PyModel& of) {
  check_complete(*of.store);
  auto copy = clone_model(*of.ptr);
  verify(*copy);
  return copy;
}

// Functions are pairs of a name and a path, an ONNX file's bytes, an ir.Model, or a Converted.
nb::list convert_functions(const std::vector<std::pair<std::string, nb::object>>& functions, const std::string& out,
                           const nb::dict& options) {
  std::vector<std::unique_ptr<Model>> read;
  std::vector<CoremlFunction> named;
  std::vector<ToCoremlReport> reports;
  for (const auto& [name, source] : functions) {
    if (Model* converted = converted_model(source)) {
      named.push_back({name, converted});
      continue;
    }
    if (nb::isinstance<nb::str>(source)) {
      read.push_back(read_for_coreml(nb::cast<std::string>(source)));
    } else if (nb::isinstance<PyModel>(source)) {
      read.push_back(copied(nb::cast<const PyModel&>(source)));
    } else {
      // The caller's bytes outlive this call, and the models do not.
      const auto bytes = nb::cast<nb::bytes>(source);
      read.push_back(read_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}, nullptr, ""));
      verify(*read.back());
    }
    named.push_back({name, read.back().get()});
  }
  std::vector<const Model*> sources;
  for (const auto& m : read) sources.push_back(m.get());
  watched(options, out,
          [&](const ToCoremlOptions& o) { write_converted(*functions_to_coreml(named, o, reports), out, sources); });
  nb::list all;
  for (const ToCoremlReport& r : reports) all.append(report_dict(r));
  return all;
}

}  // namespace

void bind_to_coreml(nb::module_& m) {
  m.def("convert_onnx_file", [](const std::string& in, const std::string& out, const nb::dict& options) {
    ToCoremlReport report;
    watched(options, out, [&](const ToCoremlOptions& o) { report = convert_to_coreml(in, out, o); });
    return report_dict(report);
  });
  m.def("convert_onnx_bytes",
        [](const nb::bytes& bytes, const std::string& folder, const std::string& out, const nb::dict& options) {
          // The caller's bytes outlive this call, and the models do not.
          const auto onnx = [&] {
            const std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
            const Unlocked others_may_run;
            auto read = read_onnx_bytes(view, nullptr, folder);
            verify(*read);
            return read;
          }();
          return report_dict(written_as_coreml(nullptr, *onnx, out, options));
        });
  m.def("convert_onnx_model", [](const PyModel& model, const std::string& out, const nb::dict& options) {
    const auto onnx = copied(model);
    return report_dict(written_as_coreml(nullptr, *onnx, out, options));
  });
  m.def("convert_functions", &convert_functions);
  m.def("specification_version", &coreml_version_of, "That of a deployment target: 9 is iOS 18.");
  m.def("mil_lowerings", &mil_lowerings, "The ONNX operators that can be converted to Core ML.");
}

}  // namespace sardonyx::python
