// Bindings of imported programs and their edits.
#include "native/coreml/session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "convert/program_passes.h"
#include "native/coreml/edits.h"
#include "native/optimize.h"
#include "native/unlocked.h"

namespace sardonyx::python {
namespace {

// A program between import and edits, while passes run on it.
class Session {
 public:
  Session(const nb::dict& functions, int64_t specification_version, const nb::object& type_text, const nb::object& version,
          const nb::object& payload, const nb::object& opset)
      : program_(import_program(functions, specification_version, {type_text, version, payload, opset})), edits_(program_) {}

  // Keeps the op in single precision (keep_fp32) or in 32 bits (keep_int32) when add_fp16_cast or
  // add_int16_cast run.
  void keep(size_t op, const std::string& attribute) {
    Node& n = *program_.ops.at(op).node;
    n.set_attrs(program_.model->with_attr(n.attrs(), attribute, Attr(true)));
  }

  nb::dict run(const nb::dict& options) {
    PythonProgress progress(options);
    const OptimizeOptions o = optimize_options(options, &progress);
    PipelineReport report;
    {
      const Unlocked others_may_run;
      program_.types_before.clear();
      for (const Value* v : program_.values) program_.types_before.push_back(v->type());
      report = run_program_passes(*program_.model, o.request, program_.facts);
    }
    return report_of(report);
  }

  nb::object op(size_t number) const { return program_.ops.at(number).object; }
  nb::list ops() const {
    nb::list all;
    for (const ImportedOp& o : program_.ops) all.append(o.object);
    return all;
  }
  nb::object variable(size_t number) const { return program_.variables.at(number); }
  void set_variable(size_t number, nb::object variable) { program_.variables.at(number) = std::move(variable); }
  bool has_constexpr() const { return program_.has_constexpr; }
  EditCollector& edits() { return edits_; }

 private:
  ImportedProgram program_;
  EditCollector edits_;
};

void bind_edits(nb::module_& m) {
  nb::class_<ArrayView>(m, "ArrayView")
      .def_ro("array", &ArrayView::array)
      .def_ro("shape", &ArrayView::shape)
      .def_ro("strides", &ArrayView::strides);
  nb::class_<OperandEdit>(m, "OperandEdit")
      .def_ro("slot", &OperandEdit::slot)
      .def_ro("is_list", &OperandEdit::is_list)
      .def_ro("values", &OperandEdit::values);
  nb::class_<InputEdit>(m, "InputEdit")
      .def_ro("name", &InputEdit::name)
      .def_ro("type", &InputEdit::type)
      .def_ro("value", &InputEdit::value)
      .def_ro("has_new_type", &InputEdit::has_new_type);
  nb::class_<ResultEdit>(m, "ResultEdit").def_ro("name", &ResultEdit::name).def_ro("value", &ResultEdit::value);
  nb::class_<OpEdit>(m, "OpEdit")
      .def_ro("op", &OpEdit::op)
      .def_ro("type", &OpEdit::type)
      .def_ro("constant", &OpEdit::constant)
      .def_ro("name", &OpEdit::name)
      .def_ro("operands", &OpEdit::operands)
      .def_ro("results", &OpEdit::results)
      .def_ro("result_names", &OpEdit::result_names)
      .def_ro("blocks", &OpEdit::blocks)
      .def_ro("sources", &OpEdit::sources)
      .def_ro("before", &OpEdit::before)
      .def_ro("has_new_types", &OpEdit::has_new_types);
  nb::class_<BlockEdit>(m, "BlockEdit")
      .def_ro("inputs", &BlockEdit::inputs)
      .def_ro("ops", &BlockEdit::ops)
      .def_ro("removed", &BlockEdit::removed)
      .def_ro("results", &BlockEdit::results)
      .def_ro("order", &BlockEdit::order);
  nb::class_<FunctionEdit>(m, "FunctionEdit").def_ro("opset", &FunctionEdit::opset).def_ro("block", &FunctionEdit::block);
}

}  // namespace

void bind_coreml_session(nb::module_& m) {
  bind_edits(m);
  nb::class_<Session>(m, "Session")
      .def(nb::init<const nb::dict&, int64_t, const nb::object&, const nb::object&, const nb::object&, const nb::object&>(),
           nb::arg("functions"), nb::arg("specification_version"), nb::arg("type_text"), nb::arg("version"), nb::arg("payload"),
           nb::arg("opset"))
      .def("keep", &Session::keep)
      .def("run", &Session::run)
      .def("op", &Session::op)
      .def("ops", &Session::ops)
      .def("variable", &Session::variable)
      .def("set_variable", &Session::set_variable)
      .def("has_constexpr", &Session::has_constexpr)
      .def("function_edit", [](Session& s, const std::string& name) { return s.edits().function(name); })
      .def("new_functions", [](Session& s) { return s.edits().new_functions(); })
      .def("new_function", [](Session& s, const std::string& name) { return s.edits().new_function(name); });
}

}  // namespace sardonyx::python
