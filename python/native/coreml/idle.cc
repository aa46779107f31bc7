// Whether passes would change a coremltools program in memory, decided without importing it.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "convert/program_passes.h"
#include "dialects/mil/interface_names.h"
#include "dialects/mil/sample.h"
#include "native/coreml/objects.h"
#include "native/coreml/samples.h"
#include "native/coreml/session.h"
#include "native/optimize.h"

namespace sardonyx::python {
namespace {

// Inspects coremltools' objects, so that a program is imported only if a pass may change it.
class IdleCheck {
 public:
  IdleCheck(nb::dict functions, const PassRequest& request) : functions_(std::move(functions)), request_(request) {}

  bool is_idle(std::string_view pass) const {
    if (pass == "image_input_preprocess") return !has_option(pass, "inputs");
    if (pass == "update_output_dtypes") return !has_option(pass, "types");
    if (pass == "sanitize_input_output_names") return has_clean_names();
    if (pass == "dedup_op_and_var_names") return has_unique_names();
    if (pass == "const_elimination") return has_no_values();
    if (pass == "dead_code_elimination") return has_users();
    if (pass == "remove_symbolic_reshape") return has_constant_shapes();
    if (pass == "remove_redundant_ops") return has_distinct_ops();
    if (pass == "expand_dynamic_linear") return has_static_linears();
    return false;
  }

  // See Samples. Null where they do not represent the program.
  const Graph* samples() const {
    if (!samples_) samples_.emplace(functions_);
    return samples_->graph();
  }

 private:
  bool has_option(std::string_view pass, std::string_view option) const {
    return std::ranges::any_of(request_.options, [&](const auto& o) {
      return std::string_view(o.first).ends_with(option) && o.first.find(pass) != std::string::npos && !o.second.empty();
    });
  }

  // Calls f(op) until it returns false. Returns false if it did, or if some op has blocks.
  template <class F>
  bool all_ops(const F& f) const {
    PyTypeObject* constant = nullptr;  // most ops are constants, which have no blocks
    for (const auto& [name, function] : functions_) {
      const nb::object operations = get(function, names().operations);
      if (PyList_Check(operations.ptr())) return false;
      for (nb::object at = get(operations, names().start); !at.is_none(); at = get(at, names().next)) {
        const nb::object op = get(at, names().op);
        if (PyTypeObject* type = Py_TYPE(op.ptr()); type != constant) {
          const nb::object blocks = get(op, names().blocks);
          if (!PyList_Check(blocks.ptr()) || PyList_Size(blocks.ptr()) > 0) return false;
          if (is_named(type, "const")) constant = type;
        }
        if (!f(op)) return false;
      }
    }
    return true;
  }

  bool has_clean_names() const {
    for (const auto& [name, function] : functions_) {
      for (const auto& [input, var] : nb::cast<nb::dict>(get(function, names().inputs))) {
        if (!mil::is_interface_name(utf8_of(input)) || !mil::is_interface_name(utf8_of(get(var, names().name)))) return false;
      }
      for (nb::handle var : get(function, names().outputs)) {
        if (!mil::is_interface_name(utf8_of(get(var, names().name)))) return false;
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
      const Py_ssize_t before = PySet_Size(set);
      return PySet_Add(set, name.ptr()) == 0 && PySet_Size(set) > before;
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

  // No op but a constant has a value that coremltools has computed.
  bool has_no_values() const {
    PyTypeObject *constant = nullptr, *other = nullptr;  // the last types seen
    return all_ops([&](const nb::object& op) {
      PyTypeObject* type = Py_TYPE(op.ptr());
      if (type == constant) return true;
      if (type != other) {
        other = type;
        if (is_named(type, "const")) {
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

  // The shape of every reshape is a constant without symbols.
  bool has_constant_shapes() const {
    return all_ops([&](const nb::object& op) {
      if (!is_named(Py_TYPE(op.ptr()), "reshape")) return true;
      const nb::object maker = op.attr("shape").attr("op");
      return !maker.is_none() && is_named(Py_TYPE(maker.ptr()), "const");
    });
  }

  // No two ops of one type have the same operands, equal constants included.
  bool has_distinct_ops() const {
    std::unordered_map<size_t, std::vector<PyObject*>> seen;  // ops with the same operands, except constants
    return all_ops([&](const nb::object& op) {
      PyTypeObject* type = Py_TYPE(op.ptr());
      if (is_named(type, "const")) return true;
      size_t hash = reinterpret_cast<uintptr_t>(type);
      each_operand(op, [&](PyObject* slot, PyObject* var) {
        hash = (hash ^ reinterpret_cast<uintptr_t>(slot)) * 0x9e3779b97f4a7c15ULL;
        if (!is_const(var)) hash = (hash ^ reinterpret_cast<uintptr_t>(var)) * 0x9e3779b97f4a7c15ULL;
      });
      std::vector<PyObject*>& alike = seen[hash];
      if (!std::ranges::all_of(alike, [&](PyObject* other) { return differ(op, other); })) return false;
      alike.push_back(op.ptr());
      return true;
    });
  }

  static bool is_const(PyObject* var) {
    const nb::object maker = get(var, names().var_op);
    return !maker.is_none() && is_named(Py_TYPE(maker.ptr()), "const");
  }

  // Whether two ops certainly differ in some operand. Constants that cannot be compared count as equal.
  static bool differ(const nb::object& a, PyObject* b) {
    std::vector<std::pair<PyObject*, PyObject*>> x, y;
    each_operand(a, [&](PyObject* slot, PyObject* var) { x.emplace_back(slot, var); });
    each_operand(b, [&](PyObject* slot, PyObject* var) { y.emplace_back(slot, var); });
    if (x.size() != y.size()) return true;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].first != y[i].first) return utf8_of(x[i].first) != utf8_of(y[i].first);
      if (x[i].second == y[i].second) continue;
      if (!is_const(x[i].second) || !is_const(y[i].second) || have_other_values(x[i].second, y[i].second)) return true;
    }
    return false;
  }

  static bool have_other_values(PyObject* a, PyObject* b) {
    const nb::object x = get(a, names().val), y = get(b, names().val);
    if (PyUnicode_CheckExact(x.ptr()) && PyUnicode_CheckExact(y.ptr())) return utf8_of(x) != utf8_of(y);
    Py_buffer p, q;
    if (!PyObject_CheckBuffer(x.ptr()) || !PyObject_CheckBuffer(y.ptr())) return false;
    if (PyObject_GetBuffer(x.ptr(), &p, PyBUF_STRIDES) != 0) return PyErr_Clear(), false;
    if (PyObject_GetBuffer(y.ptr(), &q, PyBUF_STRIDES) != 0) return PyBuffer_Release(&p), PyErr_Clear(), false;
    const bool dense = PyBuffer_IsContiguous(&p, 'C') != 0 && PyBuffer_IsContiguous(&q, 'C') != 0;
    const bool other = p.len != q.len || (dense && std::memcmp(p.buf, q.buf, static_cast<size_t>(p.len)) != 0);
    PyBuffer_Release(&p);
    PyBuffer_Release(&q);
    return other;
  }

  // The weights and biases of all linear ops are constants, compressed or not.
  bool has_static_linears() const {
    const auto is_static = [](const Value* v) {
      return v == nullptr || v->is_constant() || (v->def() != nullptr && v->def()->op().name.starts_with("constexpr_"));
    };
    const Graph* g = samples();
    return g != nullptr && std::ranges::all_of(g->nodes(), [&](const Node& n) {
             return n.op().name != "linear" || (is_static(n.input(1)) && (n.num_inputs() < 3 || is_static(n.input(2))));
           });
  }

  // Every op has a result with users.
  bool has_users() const {
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
  mutable std::optional<Samples> samples_;  // filled on first use
};

// The report of Session.run() if no pass would change the program, else None.
nb::object report_of_idle_passes(const nb::dict& functions, const nb::dict& options) {
  const OptimizeOptions o = optimize_options(options, /*observer=*/nullptr);
  const IdleCheck check(functions, o.request);
  const auto report =
      idle_report(o.request, [&] { return check.samples(); }, [&](std::string_view pass) { return check.is_idle(pass); });
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

void bind_coreml_idle(nb::module_& m) { m.def("idle_report", &report_of_idle_passes); }

}  // namespace sardonyx::python
