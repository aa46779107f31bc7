// Makes names of ops and variables of a coremltools program unique in place, without reading the program.
#include <unordered_set>

#include "dialects/mil/unique_names.h"
#include "native/coreml/objects.h"
#include "native/coreml/session.h"

namespace sardonyx::python {
namespace {

// Does what the pass dedup_op_and_var_names does.
class Renamer {
 public:
  // Returns false, without changes, where an input and a result share a name. The pass reports that.
  bool function(nb::handle f) {
    std::unordered_set<std::string_view> inputs;
    const auto vars = nb::cast<nb::dict>(get(f, names().inputs));
    for (const auto& [input, var] : vars) {
      const std::string_view name = utf8_of(get(var, names().name));
      if (!inputs.insert(name).second) return false;
      vars_.keep(name);
      ports_.insert(var.ptr());
    }
    std::unordered_set<std::string_view> results;
    for (nb::handle var : get(f, names().outputs)) {
      if (ports_.contains(var.ptr())) continue;
      const std::string_view name = utf8_of(get(var, names().name));
      if (inputs.contains(name) || !results.insert(name).second) return false;
      vars_.keep(name);
    }
    for (nb::handle var : get(f, names().outputs)) ports_.insert(var.ptr());
    block(f, /*is_function=*/true);
    return true;
  }

  size_t renamed() const { return renamed_; }

 private:
  void rename(nb::handle object, mil::UniqueNames& all) {
    const nb::object name = get(object, names().name);
    if (name.is_none()) return;
    const std::string_view was = utf8_of(name);
    if (was.empty()) return;
    const std::string now = all.unique(was);
    if (now == was) return;
    if (PyObject_SetAttr(object.ptr(), names().name, nb::str(now.c_str(), now.size()).ptr()) != 0) throw nb::python_error();
    ++renamed_;
  }

  void block(nb::handle b, bool is_function) {
    if (!is_function) {
      for (nb::handle var : get(b, names().inputs)) {
        if (!ports_.contains(var.ptr())) rename(var, vars_);
      }
    }
    each_op(b, [&](nb::handle op) {
      for (nb::handle inner : get(op, names().blocks)) block(inner, /*is_function=*/false);  // recursion over nesting only
      rename(op, ops_);
      const nb::object outputs = get(op, names().output_vars);
      if (outputs.is_none()) return;
      for (nb::handle var : outputs) {
        if (!ports_.contains(var.ptr())) rename(var, vars_);
      }
    });
  }

  mil::UniqueNames vars_, ops_;
  std::unordered_set<PyObject*> ports_;  // the function's inputs and results
  size_t renamed_ = 0;
};

// Renames as the pass would and returns its report. None if the pass itself must run.
nb::object rename_repeated(const nb::dict& functions) {
  PassReport report{.name = "dedup_op_and_var_names"};
  for (const auto& [name, function] : functions) {
    Renamer renamer;
    if (!renamer.function(function)) return nb::none();
    report.changed |= renamer.renamed() > 0;
  }
  PipelineReport all;
  all.passes.push_back(std::move(report));
  return report_of(all);
}

}  // namespace

void bind_coreml_names(nb::module_& m) { m.def("rename_repeated", &rename_repeated); }

}  // namespace sardonyx::python
