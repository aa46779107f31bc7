// Whether passes have anything to do on a program of coremltools in memory, found out without reading it.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "coreml_bridge.h"
#include "coreml_objects.h"
#include "optimize.h"
#include "passes/catalog.h"
#include "passes/mil/interface_names.h"
#include "passes/mil/sample.h"

namespace sardonyx::python {
namespace {

// Finds out whether a pass has something to do, from coremltools' objects: so that a program is read only where it has.
class Look {
 public:
  Look(nb::dict functions, const PassRequest& request) : functions_(std::move(functions)), request_(request) {}

  bool is_idle(std::string_view pass) const {
    if (pass == "image_input_preprocess") return !has_option(pass, "inputs");
    if (pass == "update_output_dtypes") return !has_option(pass, "types");
    if (pass == "sanitize_input_output_names") return has_clean_names();
    if (pass == "dedup_op_and_var_names") return has_unique_names();
    if (pass == "const_elimination") return has_no_values();
    if (pass == "dead_code_elimination") return has_readers();
    if (pass == "remove_symbolic_reshape") return has_constant_shapes();
    return false;
  }

  // The types of the ops, nested blocks included.
  std::vector<std::string> ops() const {
    std::unordered_map<PyTypeObject*, bool> kinds;
    for (const auto& [name, function] : functions_) collect(function, kinds);
    std::vector<std::string> all;
    for (const auto& [kind, has_blocks] : kinds)
      all.push_back(nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(kind)).attr("__name__")));
    return all;
  }

 private:
  bool has_option(std::string_view pass, std::string_view option) const {
    return std::ranges::any_of(request_.options, [&](const auto& o) {
      return std::string_view(o.first).ends_with(option) && o.first.find(pass) != std::string::npos && !o.second.empty();
    });
  }

  static void collect(nb::handle block, std::unordered_map<PyTypeObject*, bool>& kinds) {
    each_op(block, [&](nb::handle op) {
      const auto [at, is_new] = kinds.try_emplace(Py_TYPE(op.ptr()), false);
      // Only ops of control flow have blocks: the first of a type tells.
      if (is_new) at->second = nb::len(get(op, names().blocks)) > 0;
      if (!at->second) return;
      for (nb::handle inner : get(op, names().blocks)) collect(inner, kinds);
    });
  }

  // Calls f(op) until it says false; false if it did. With blocks, nothing is known.
  template <class F>
  bool all_ops(const F& f) const {
    for (const auto& [name, function] : functions_) {
      const nb::object operations = get(function, names().operations);
      if (PyList_Check(operations.ptr())) return false;
      for (nb::object at = get(operations, names().start); !at.is_none(); at = get(at, names().next)) {
        const nb::object op = get(at, names().op);
        const nb::object blocks = get(op, names().blocks);
        if (!PyList_Check(blocks.ptr()) || PyList_GET_SIZE(blocks.ptr()) > 0 || !f(op)) return false;
      }
    }
    return true;
  }

  bool has_clean_names() const {
    for (const auto& [name, function] : functions_) {
      for (const auto& [input, var] : nb::cast<nb::dict>(get(function, names().inputs))) {
        if (!mil::is_interface_name(text_of(input)) || !mil::is_interface_name(text_of(get(var, names().name)))) return false;
      }
      for (nb::handle var : get(function, names().outputs)) {
        if (!mil::is_interface_name(text_of(get(var, names().name)))) return false;
      }
    }
    return true;
  }

  bool has_unique_names() const {
    if (functions_.size() != 1) return false;
    PyObject* seen_ops = PySet_New(nullptr);
    PyObject* seen_vars = PySet_New(nullptr);
    const nb::object keep_ops = nb::steal(seen_ops), keep_vars = nb::steal(seen_vars);
    const auto is_new = [](PyObject* set, const nb::object& name) {
      if (name.is_none()) return false;
      const Py_ssize_t before = PySet_GET_SIZE(set);
      return PySet_Add(set, name.ptr()) == 0 && PySet_GET_SIZE(set) > before;
    };
    for (const auto& [name, function] : functions_) {
      for (const auto& [input, var] : nb::cast<nb::dict>(get(function, names().inputs))) {
        if (!is_new(seen_vars, get(var, names().name))) return false;
      }
    }
    return all_ops([&](const nb::object& op) {
      if (!is_new(seen_ops, get(op, names().name))) return false;
      const nb::object outputs = get(op, names().output_vars);
      if (outputs.is_none()) return true;
      for (nb::handle var : outputs) {
        if (!is_new(seen_vars, get(var, names().name))) return false;
      }
      return true;
    });
  }

  // No op but constants has a value that coremltools knows.
  bool has_no_values() const {
    PyTypeObject *constant = nullptr, *other = nullptr;  // the types that were met last
    return all_ops([&](const nb::object& op) {
      PyTypeObject* type = Py_TYPE(op.ptr());
      if (type == constant) return true;
      if (type != other) {
        other = type;
        if (std::string_view(type->tp_name) == "const") {
          constant = type;
          return true;
        }
      }
      const nb::object outputs = get(op, names().output_vars);
      if (outputs.is_none()) return true;
      for (nb::handle var : outputs) {
        if (!get(var, names().sym_val).is_none()) return false;
      }
      return true;
    });
  }

  // Every reshape has a constant without symbols for its shape.
  bool has_constant_shapes() const {
    return all_ops([&](const nb::object& op) {
      if (std::string_view(Py_TYPE(op.ptr())->tp_name) != "reshape") return true;
      const nb::object maker = op.attr("shape").attr("op");
      return !maker.is_none() && std::string_view(Py_TYPE(maker.ptr())->tp_name) == "const";
    });
  }

  // Every op has a result that is read.
  bool has_readers() const {
    return all_ops([&](const nb::object& op) {
      const nb::object outputs = get(op, names().output_vars);
      if (outputs.is_none()) return true;
      for (nb::handle var : outputs) {
        if (nb::len(get(var, names().child_ops)) > 0 || nb::len(get(var, names().consuming_blocks)) > 0) return true;
      }
      return false;
    });
  }

  nb::dict functions_;
  const PassRequest& request_;
};

// What run() would report if none of the passes has anything to do on the program; None if one might.
nb::object run_nothing(const nb::dict& functions, const nb::dict& options) {
  const OptimizeOptions o = optimize_options(options);
  const Look look(functions, o.request);
  const auto report =
      report_if_idle(o.request, [&] { return look.ops(); }, [&](std::string_view pass) { return look.is_idle(pass); });
  return report ? nb::object(report_of(*report)) : nb::object(nb::none());
}

}  // namespace

nb::dict report_of(const PipelineReport& report) {
  nb::dict d;
  nb::list passes;
  for (const PassReport& p : report.passes) {
    nb::dict one;
    one["name"] = p.name;
    one["changed"] = p.changed;
    one["seconds"] = p.seconds;
    one["error"] = p.error;
    passes.append(one);
  }
  d["passes"] = passes;
  d["faults"] = report.faults;
  return d;
}

void bind_coreml_look(nb::module_& m) { m.def("run_nothing", &run_nothing); }

}  // namespace sardonyx::python
