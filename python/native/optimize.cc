// sardonyx.optimize and sardonyx.passes: thin bindings of the driver.
#include <fmt/format.h>

#include <map>

#include "convert/optimize.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert/pipeline_text.h"
#include "io/onnx/apart.h"
#include "native/evaluate.h"
#include "native/ir/edit.h"
#include "native/optimize.h"
#include "native/options.h"
#include "native/unlocked.h"
#include "sardonyx/infer.h"

namespace sardonyx::python {
namespace {

using python::decode;

// Holds an object of Python, and releases it with the interpreter's lock.
struct Locked {
  explicit Locked(nb::handle h) : object(nb::borrow(h)) {}
  ~Locked() {
    const nb::gil_scoped_acquire locked;
    object.reset();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  nb::object object;
};

void decode(nb::handle given, Verify& to) {
  const auto word = nb::cast<std::string>(given);
  to = word == "model" ? Verify::kModel : word == "pass" ? Verify::kPass : Verify::kOff;
}

void decode(nb::handle given, std::optional<Tolerance>& to) {
  const auto [rtol, atol] = nb::cast<std::pair<double, double>>(given);
  to = Tolerance{rtol, atol};
}

// Calls a function of Python. What it says to be unsupported is an error that native code can catch.
nb::object call(const Locked& function, const nb::object& given) {
  try {
    return function.object(given);
  } catch (nb::python_error& e) {
    if (!e.matches(nb::module_::import_("sardonyx._error").attr("Error"))) throw;
    const nb::object raised = nb::borrow(e.value());
    if (nb::cast<std::string>(raised.attr("code")) != to_string(ErrorCode::kUnsupported)) throw;
    throw Error(ErrorCode::kUnsupported, nb::cast<std::string>(raised.attr("message")),
                nb::cast<std::vector<std::string>>(nb::list(raised.attr("notes"))));
  }
}

// A function of a model's bytes, which returns a function of a list of values.
void decode(nb::handle given, std::function<RunModel(const Model&)>& to) {
  const auto prepare = std::make_shared<Locked>(given);
  to = [prepare](const Model& m) -> RunModel {
    const std::string bytes = serialize_onnx(m);
    const nb::gil_scoped_acquire locked;
    const auto run = std::make_shared<Locked>(call(*prepare, nb::bytes(bytes.data(), bytes.size())));
    return [run](std::span<const EvalValue> inputs) {
      const nb::gil_scoped_acquire locked_again;
      nb::list given_inputs;
      for (const EvalValue& v : inputs) given_inputs.append(eval_object(v));
      std::vector<EvalValue> results;
      for (nb::handle v : nb::cast<nb::list>(call(*run, given_inputs))) results.push_back(eval_value(v));
      return results;
    };
  };
}

nb::list list_of(std::span<const EvalValue> values) {
  nb::list objects;
  for (const EvalValue& v : values) objects.append(eval_object(v));
  return objects;
}

// A function of two lists of values.
void decode(nb::handle given, ErrorMetric& to) {
  const auto metric = std::make_shared<Locked>(given);
  to = [metric](std::span<const EvalValue> before, std::span<const EvalValue> after) {
    const nb::gil_scoped_acquire locked;
    return nb::cast<double>(metric->object(list_of(before), list_of(after)));
  };
}

OptimizeOptions options_of(const nb::dict& d, Observer* observer) {
  OptimizeOptions o;
  o.request.observer = observer;
#define SX_OPTION(field, ...) SX_DECODE(d, field, o)
#define SX_FIELD(field) SX_DECODE(d, field, o)
#define SX_KEYWORD(...)
#include "convert/optimize_options.def"
#undef SX_KEYWORD
#undef SX_FIELD
#undef SX_OPTION
  return o;
}

nb::dict dict_of(const ModelCounts& c, uint64_t file_bytes) {
  nb::dict d;
  d["nodes"] = c.nodes;
  d["ops"] = c.ops;
  d["parameters"] = c.parameters;
  d["tensor_bytes"] = c.bytes;
  d["file_bytes"] = file_bytes;
  return d;
}

nb::dict dict_of(const Saved& s) {
  nb::dict d;
  d["nodes"] = s.nodes;
  d["tensor_bytes"] = s.bytes;
  d["flops"] = s.flops.empty() ? nb::object(nb::none()) : nb::object(nb::str(s.flops.c_str()));
  d["flops_at"] = s.at_flops ? nb::object(nb::float_(*s.at_flops)) : nb::object(nb::none());
  return d;
}

nb::dict dict_of(const OptimizeReport& r) {
  nb::dict d;
  nb::dict before = dict_of(r.before, r.file_before), after = dict_of(r.after, r.file_after);
  if (r.savings) {
    const auto add_flops = [](nb::dict& to, const nb::dict& counted) {
      to["flops"] = counted["flops"];
      to["flops_at"] = counted["flops_at"];
    };
    add_flops(before, dict_of(r.savings->before));
    add_flops(after, dict_of(r.savings->after));
    nb::dict beside;
    for (const auto& [what, saved] : r.savings->beside) beside[what.c_str()] = dict_of(saved);
    d["saved_beside"] = beside;
    d["at"] = r.savings->at;
  }
  d["before"] = before;
  d["after"] = after;
  nb::list passes;
  for (size_t i = 0; i < r.passes.passes.size(); ++i) {
    const PassReport& p = r.passes.passes[i];
    nb::dict one;
    one["name"] = p.name;
    one["changed"] = p.changed;
    one["seconds"] = p.seconds;
    one["counts"] = std::map<std::string, size_t>(p.counts.begin(), p.counts.end());
    one["error"] = p.error;
    if (r.savings) one["saved"] = dict_of(r.savings->by_pass[i]);
    if (i < r.changes.size()) {
      one["ops"] = r.changes[i].ops;
      nb::list at;
      for (const ChangeLog::Firing& f : r.changes[i].firings)
        at.append(nb::make_tuple(f.rule.empty() ? p.name : f.rule, f.op, f.name));
      one["at"] = at;
    }
    passes.append(one);
  }
  d["passes"] = passes;
  nb::dict stages;
  stages["read"] = r.read_seconds;
  stages["optimize"] = r.optimize_seconds;
  stages["write"] = r.write_seconds;
  d["stages"] = stages;
  nb::list curve;
  for (const PrecisionPoint& p : r.precision_curve) {
    nb::dict point;
    point["types"] = p.types;
    point["bytes"] = p.bytes;
    point["error"] = p.error;
    point["time"] = p.time ? nb::object(nb::float_(*p.time)) : nb::object(nb::none());
    curve.append(point);
  }
  d["precision_curve"] = curve;
  d["precision_chosen"] = r.precision_chosen;
  d["precision_bound"] = r.precision_bound;
  d["has_metric"] = r.has_metric;
  d["faults"] = r.passes.faults;
  d["evaluations"] = r.passes.evaluations;
  d["warnings"] = r.warnings;
  d["largest_error"] = r.largest_error ? nb::object(nb::float_(*r.largest_error)) : nb::object(nb::none());
  return d;
}

nb::dict optimize_path(const std::string& in, const std::string& out, const nb::dict& options) {
  PythonProgress progress(options);
  const OptimizeOptions o = options_of(options, &progress);
  OptimizeReport report;
  {
    const Unlocked others_may_run;
    report = optimize_file(in, out, o);
  }
  return dict_of(report);
}

nb::tuple optimize_bytes(const nb::bytes& bytes, const std::string& folder, const nb::dict& options) {
  PythonProgress progress(options);
  const OptimizeOptions o = options_of(options, &progress);
  OptimizeReport report;
  std::string out;
  {
    std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
    const Unlocked others_may_run;
    // The caller's bytes outlive this call; the model does not.
    const auto model = read_onnx_bytes(view, nullptr, folder);
    verify(*model);
    report = optimize_model(*model, o);
    if (o.declare_types) {
      ValueFacts facts;
      infer_model(*model, facts, /*tolerant=*/true);
    }
    out = serialize_onnx(*model, {.inferred_types = o.declare_types});
    if (is_only_larger(report, o, view.size(), out.size())) {
      out.assign(reinterpret_cast<const char*>(view.data()), view.size());
      keep_as_it_was(report);
    }
  }
  return nb::make_tuple(nb::bytes(out.data(), out.size()), dict_of(report));
}

// The size of the model's file; 0 where one message cannot hold it.
uint64_t message_bytes(const Model& m) {
  try {
    return serialize_apart(m, /*threshold=*/64 << 10).bytes;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    return 0;
  }
}

// Optimizes a copy of a sardonyx.ir.Model. The copy shares the weights.
nb::tuple optimize_model_handle(PyModel& of, const nb::dict& options) {
  check_complete(*of.store);
  PythonProgress progress(options);
  const OptimizeOptions o = options_of(options, &progress);
  OptimizeReport report;
  std::shared_ptr<Model> model = clone_model(*of.ptr);
  std::shared_ptr<Model> before = clone_model(*of.ptr);  // Python may change `of` while the lock is released
  {
    const Unlocked others_may_run;
    verify(*model);
    report = optimize_model(*model, o);
    if (is_only_larger(report, o, 0, 1) && is_only_larger(report, o, message_bytes(*before), message_bytes(*model))) {
      model = before;
      keep_as_it_was(report);
    }
  }
  nb::module_::import_("sardonyx.ir");
  return nb::make_tuple(wrap_model(Store::of(std::move(model))), dict_of(report));
}

nb::dict dict_of(const PassInfo& p) {
  nb::dict d;
  d["name"] = std::string(p.name);
  d["dialect"] = std::string(p.dialect);
  d["about"] = std::string(p.about);
  d["numerics"] = std::string(to_string(p.numerics));
  nb::dict options;
  for (const auto& [name, meaning] : p.options) options[nb::str(name.data(), name.size())] = std::string(meaning);
  d["options"] = options;
  d["rules"] = p.rules;
  return d;
}

}  // namespace

void PythonProgress::progress(std::string_view what, size_t done, size_t total) {
  if (call_.is_none()) return;
  const nb::gil_scoped_acquire locked;
  call_(nb::str(what.data(), what.size()), done, total);
}

OptimizeOptions optimize_options(const nb::dict& d, Observer* observer) { return options_of(d, observer); }

nb::dict report_dict(const OptimizeReport& r) { return dict_of(r); }

void bind_optimize(nb::module_& m) {
  m.def("optimize_path", &optimize_path, nb::arg("input"), nb::arg("output"), nb::arg("options"));
  m.def("optimize_bytes", &optimize_bytes, nb::arg("model"), nb::arg("folder"), nb::arg("options"));
  m.def("optimize_model", &optimize_model_handle, nb::arg("model"), nb::arg("options"),
        "Optimizes a copy of an ir.Model: the result, and a report.");
  m.def("list_passes", [] {
    nb::list all;
    for (const PassInfo& p : list_passes()) all.append(dict_of(p));
    return all;
  });
  m.def(
      "read_pipeline",
      [](const std::string& text) {
        PassRequest request{.passes = {}};
        add_pipeline(text, request);
        return std::pair(request.passes, request.options);
      },
      nb::arg("text"), "The passes and options of a list, or of the file that is named.");
  m.def("list_presets", [] {
    nb::dict all;
    for (const PresetInfo& p : list_presets()) {
      std::vector<std::string> passes(p.passes.begin(), p.passes.end());
      all[nb::str(p.name.data(), p.name.size())] = passes;
    }
    return all;
  });
}

}  // namespace sardonyx::python
