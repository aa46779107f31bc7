#include "native/jax/lowering_context.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "convert/plugin.h"
#include "ir/text/spelling.h"
#include "lower/jax_to_onnx/context.h"
#include "native/ir/store.h"
#include "native/jax/values.h"

namespace sardonyx::python {
namespace {

// One equation that Python is lowering. Unusable after the lowering has returned.
class PyLowering {
 public:
  PyLowering(jax_to_onnx::Lowering& lowering, StorePtr store, std::string origin, nb::handle late)
      : lowering_(&lowering),
        store_(std::move(store)),
        origin_(std::move(origin)),
        late_(late),
        seen_(lowering.b.graph().last()) {}

  // Throws after end().
  jax_to_onnx::Lowering& lowering() const {
    if (lowering_ == nullptr) refuse(fmt::format("the context of {} was used after its lowering had returned", origin_));
    return *lowering_;
  }
  const StorePtr& store() const { return store_; }
  const std::string& origin() const { return origin_; }
  nb::handle late() const { return late_; }
  void end() { lowering_ = nullptr; }

  // Types the nodes that were appended since the last call, and gives them the equation's source line.
  void settle() {
    Graph& graph = lowering().b.graph();
    for (Node* n = seen_ ? seen_->next() : graph.first(); n != nullptr; n = n->next()) {
      infer_node(*n, lowering_->b.facts());
      if (n->provenance() == 0) n->set_provenance(lowering_->b.provenance());
      seen_ = n;
    }
  }

  nb::object handle(Value* v) const { return wrap(store_, v); }

  // The native value of an ir.Value. Refuses values of other graphs.
  Value& value(nb::handle object, const char* what) const {
    if (!nb::isinstance<PyValue>(object)) {
      refuse(fmt::format("{}: {} is a {}, not an ir.Value", origin_, what, nb::type_name(object.type()).c_str()));
    }
    PyValue& v = nb::cast<PyValue&>(object);
    Value& native = live(v);
    if (v.store->now() != store_) {
      refuse(fmt::format("{}: {} ({}) belongs to another graph", origin_, what, describe(native)));
    }
    return native;
  }

 private:
  jax_to_onnx::Lowering* lowering_;
  StorePtr store_;
  std::string origin_;
  nb::handle late_;  // attributes to be set after the passes
  Node* seen_;       // the last settled node
};

std::vector<Value*> run_python(nb::handle fn, jax_to_onnx::Lowering& lowering, const StorePtr& store, const std::string& origin,
                               nb::handle equation, nb::handle late) {
  static constexpr const char* kModule = "sardonyx.plugins";
  nb::object native = nb::cast(new PyLowering(lowering, store, origin, late), nb::rv_policy::take_ownership);
  auto& context = nb::cast<PyLowering&>(native);
  struct End {
    PyLowering& context;
    ~End() { context.end(); }
  } end{context};
  try {
    nb::object results = nb::module_::import_(kModule).attr("_run")(fn, native, equation, origin);
    context.settle();
    std::vector<Value*> out;
    for (nb::handle r : results) out.push_back(&context.value(r, "a result"));
    return out;
  } catch (nb::python_error& e) {
    // Collect this with the other unsupported equations, to report all at once.
    if (e.matches(nb::module_::import_(kModule).attr("Unsupported"))) lowering.unsupported(text_of(e.value()));
    throw;
  }
}

Dim dim_of(PyLowering& l, const std::string& text) { return l.lowering().b.dims().parse(text); }

}  // namespace

void add_python_lowerings(LoweringRegistry& registry, const nb::dict& by_primitive,
                          const std::unordered_map<uint32_t, nb::object>& equations, std::shared_ptr<Model> target,
                          const nb::list& late) {
  if (by_primitive.size() == 0) return;
  nb::module_::import_("sardonyx.ir");  // for the classes of handles
  // The functions below own the store. They go with the registry, while the interpreter still runs.
  StorePtr store = Store::of(std::move(target));
  for (auto [name, fn] : by_primitive) {
    std::string primitive = nb::cast<std::string>(name);
    std::string origin = nb::cast<std::string>(nb::module_::import_("sardonyx.plugins").attr("_origin")(fn));
    registry.add(
        primitive,
        [fn = std::shared_ptr<const void>(keep_python(nb::borrow(fn))), store, origin, &equations,
         late = nb::handle(late)](jax_to_onnx::Lowering& ctx) {
          nb::gil_scoped_acquire lock;
          auto equation = equations.find(ctx.node.id());
          nb::object eqn = equation == equations.end() ? nb::none() : equation->second;
          return run_python(nb::handle(static_cast<PyObject*>(const_cast<void*>(fn.get()))), ctx, store, origin, eqn, late);
        },
        origin);
  }
}

namespace {

std::vector<Node*> nodes_called(Model& m, std::string_view name) {
  std::vector<Node*> found;
  std::vector<Graph*> todo;
  for (const auto& f : m.functions()) todo.push_back(&f->graph());
  while (!todo.empty()) {
    Graph* g = todo.back();
    todo.pop_back();
    for (Node& n : g->nodes()) {
      if (n.name() == name) found.push_back(&n);
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  return found;
}

}  // namespace

void set_late_attributes(const nb::list& late, std::shared_ptr<Model> model) {
  if (nb::len(late) == 0) return;
  const StorePtr store = Store::of(std::move(model));
  for (nb::handle item : late) {
    nb::object target = item[0], attributes = item[1];
    const std::string origin = text_of(item[2]);
    std::vector<Node*> nodes;
    if (nb::isinstance<nb::str>(target)) {
      nodes = nodes_called(*store->model, text_of(target));
    } else {
      Node* n = nb::cast<PyNode&>(target).ptr;
      if (n->alive() && n->linked()) nodes.push_back(n);
    }
    for (Node* n : nodes) {
      nb::module_::import_("sardonyx.plugins").attr("_set_attributes")(wrap(store, n), attributes);
      try {
        if (auto found = misspelling(*n)) {
          throw Error(ErrorCode::kInvalidModel, std::move(found->text), std::move(found->notes));
        }
        infer_changed(*n);
      } catch (const Error& e) {
        throw e.with_note(fmt::format("after {} had set attributes of this {} late", origin, n->op().name));
      }
    }
  }
}

void bind_lowering_context(nb::module_& m) {
  nb::class_<PyLowering>(m, "Lowering")
      .def("late", [](PyLowering& l) { return nb::borrow(l.late()); })
      .def("num_operands", [](PyLowering& l) { return l.lowering().num_inputs(); })
      .def("num_results", [](PyLowering& l) { return l.lowering().node.num_results(); })
      .def("operand",
           [](PyLowering& l, size_t i) {
             // A broadcast may have been left to its users. Expand it, so that the author sees the equation's
             // own shape.
             jax_to_onnx::Lowering& ctx = l.lowering();
             return l.handle(ctx.expand(ctx.in(i), ctx.stored_in_type(i)->dims()));
           })
      .def("graph", [](PyLowering& l) { return wrap(l.store(), &l.lowering().b.graph()); })
      .def("placeholder",
           [](PyLowering& l, size_t i, const std::string& name) {
             jax_to_onnx::Context& c = l.lowering().context();
             return l.handle(&c.model().new_placeholder(name, c.stored(l.lowering().out_type(i))));
           })
      .def("is_filled", [](PyLowering& l, nb::handle v) { return l.value(v, "a value").kind() != ValueKind::kPlaceholder; })
      .def("constant",
           [](PyLowering& l, nb::handle array, const std::string& name) {
             JaxValues values(l.lowering().b.model());
             return l.handle(l.lowering().b.constant(values.tensor(array), name));
           })
      .def("cast_like",
           [](PyLowering& l, nb::handle x, nb::handle like) {
             l.settle();
             return l.handle(l.lowering().cast(&l.value(x, "the tensor"), l.value(like, "the exemplar").dtype()));
           })
      .def(
          "dim", [](PyLowering& l, const std::string& text) { return l.handle(l.lowering().dim(dim_of(l, text))); },
          "A size at run time: i64[].")
      .def("dim_origin",
           [](PyLowering& l, const std::string& text) -> nb::object {
             const jax_to_onnx::DimOrigin* origin = l.lowering().context().origin(dim_of(l, text));
             if (origin == nullptr) return nb::none();
             return nb::make_tuple(l.handle(origin->value), origin->axis);
           })
      .def("add_input",
           [](PyLowering& l, const std::string& name, nb::handle aval) {
             JaxValues values(l.lowering().b.model());
             jax_to_onnx::Context& c = l.lowering().context();
             const Type* type = c.interface_type(values.type(aval));
             Value* v = c.model().graph().add_input(name, type);
             v->set_type(type);
             c.add_origins(*v);
             return l.handle(v);
           })
      .def("add_output",
           [](PyLowering& l, nb::handle v, const std::string& name) {
             Value& value = l.value(v, "an output");
             l.lowering().context().model().graph().add_output(value, name, value.type());
           })
      .def("fresh_name",
           [](PyLowering& l, const std::string& base) { return fresh_value_name(*l.store(), l.lowering().b.graph(), base); });
}

}  // namespace sardonyx::python
