// ir.Function and ir.Model
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "native/ir/edit.h"

namespace sardonyx::python {

namespace {

std::string identify(const Function& f) {
  return f.overload.empty() ? fmt::format("{}::{}", f.domain, f.name) : fmt::format("{}::{}:{}", f.domain, f.name, f.overload);
}

void read_attributes(Function& f, Types& types, nb::handle items) {
  std::vector<std::string> names;
  std::vector<NamedAttr> defaults;
  for (nb::handle item : items) {
    nb::tuple t = nb::borrow<nb::tuple>(item);
    if (t[2].is_none() && t[3].is_none()) {
      names.push_back(nb::cast<std::string>(t[0]));
    } else {
      defaults.push_back(attribute_from_python(types, item));
    }
  }
  f.attributes = std::move(names);
  f.default_attributes = std::move(defaults);
}

PyGraph& graph_of(const PyFunction& f) { return *nb::inst_ptr<PyGraph>(f.graph); }

void init_function(PyFunction* self, std::string_view domain, std::string_view name, std::string_view overload,
                   nb::object graph, nb::handle attributes) {
  new (self) PyFunction;
  PyGraph* g = nullptr;
  if (!nb::try_cast<PyGraph*>(graph, g) || g == nullptr) refuse_type("a function needs graph=, an ir.Graph");
  Graph& body = live(*g);
  if (body.parent() != nullptr || body.function() != nullptr) {
    refuse(fmt::format("{} is already owned by {}", describe(body),
                       body.parent() ? describe(*body.parent()) : "a function or model"),
           {"give the function a copy: graph.clone()"});
  }
  if (!body.constants().empty()) {
    refuse(fmt::format("{} has initializers, which a function cannot have: {}", describe(body), describe(*body.constants()[0])),
           {"use Constant nodes: ir.Builder makes them when it is given a function"});
  }
  if (name.empty()) refuse("a function needs a name");
  self->own = std::make_unique<Function>();
  self->own->domain = domain;
  self->own->name = name;
  self->own->overload = overload;
  read_attributes(*self->own, g->store->model->types(), attributes);
  self->graph = std::move(graph);
}

void copy_data(const Function& from, Function& to) {
  to.domain = from.domain;
  to.name = from.name;
  to.overload = from.overload;
  to.doc = from.doc;
  to.metadata = from.metadata;
  to.attributes = from.attributes;
  to.default_attributes = from.default_attributes;
  to.opset_imports = from.opset_imports;
}

void check_function(const PyFunction& f) {
  if (f.own == nullptr) {
    refuse(fmt::format("function {} is already in a model", identify(f.data())),
           {"give the other model a copy: function.clone()"});
  }
  Graph& g = live(graph_of(f));
  if (g.parent() != nullptr || g.function() != nullptr)
    refuse(fmt::format("the graph of function {} has another owner by now", identify(*f.own)));
  if (!g.constants().empty()) {
    refuse(fmt::format("function {} has the initializer '{}', which ONNX functions cannot have", identify(*f.own),
                       g.constants()[0]->name().view()),
           {"use Constant nodes: ir.Builder makes them when it is given a function"});
  }
}

void add_function(const StorePtr& s, PyFunction& f) {
  Graph& g = *graph_of(f).ptr;
  std::vector<OpsetImport> opsets = opsets_of(*s, g);
  Function& made = s->model->add_function(f.own->name, g);
  copy_data(*f.own, made);
  made.opset_imports = std::move(opsets);
  f.bind(s, &made);
  f.own.reset();
}

// Removes f from its model. f and its graph remain usable.
void remove_function(PyModel& self, PyFunction& f) {
  if (f.own != nullptr || f.store != self.store) refuse(fmt::format("function {} is not in this model", identify(f.data())));
  Function& native = *f.ptr;
  if (&native == &self.ptr->main()) refuse("the main graph of a model cannot be removed");
  // The handles of the function's nodes do not follow this copy: they end with the function.
  StorePtr s = Store::make();
  Graph& body = copy_graph(native.graph(), s);
  s->facts(body).opsets = native.opset_imports;
  auto own = std::make_unique<Function>();
  copy_data(native, *own);
  PyGraph& handle = graph_of(f);
  self.store->handles.erase(&native);
  self.ptr->erase_function(native);
  f.ptr = nullptr;
  f.store = s;
  f.own = std::move(own);
  handle.bind(s, &body);
}

void init_model(PyModel* self, PyGraph& graph, int64_t ir_version, std::string_view producer_name,
                std::string_view producer_version, std::string_view domain, std::optional<int64_t> model_version,
                std::string_view doc, nb::handle functions, nb::handle metadata) {
  new (self) PyModel;
  Graph& g = live(graph);
  if (g.parent() != nullptr) {
    refuse(fmt::format("{} is nested in {} and cannot be the graph of a model", describe(g), describe(*g.parent())),
           {"give a copy: graph.clone()"});
  }
  std::vector<PyFunction*> list;
  for (nb::handle item : functions) {
    PyFunction* f = nullptr;
    if (!nb::try_cast<PyFunction*>(item, f) || f == nullptr) refuse_type("functions takes ir.Function objects");
    check_function(*f);
    for (PyFunction* other : list) {
      if (other == f || (identify(*other->own) == identify(*f->own)))
        refuse(fmt::format("two functions are called {}", identify(*f->own)));
    }
    list.push_back(f);
  }
  Metadata props = metadata_from_python(metadata);
  StorePtr s = graph.store;
  if (s->owned) {
    if (g.function() == nullptr) {  // one of several graphs in this store: it moves to its own model
      StorePtr own = Store::make();
      transfer(s, own, {}, {&g});
      s = own;
    } else if (g.function() != &s->model->main()) {
      refuse(fmt::format("{} is the body of a function and cannot be the graph of a model", describe(g)),
             {"give a copy: graph.clone()"});
    }
  }
  std::vector<StorePtr> stores{s};
  for (PyFunction* f : list) stores.push_back(graph_of(*f).store);
  s = combine(std::move(stores));
  Model& m = *s->model;
  if (m.functions().empty()) {
    std::vector<OpsetImport> opsets = opsets_of(*s, *graph.ptr);
    m.add_function(graph.ptr->name().view(), *graph.ptr);
    m.opset_imports = std::move(opsets);
  }
  s->owned = true;
  for (PyFunction* f : list) add_function(s, *f);
  m.ir_version = ir_version;
  m.producer_name = producer_name;
  m.producer_version = producer_version;
  m.domain = domain;
  m.model_version = model_version.value_or(0);
  m.doc = doc;
  m.metadata = std::move(props);
  resolve_ops(*s, *graph.ptr);
  for (PyFunction* f : list) resolve_ops(*s, f->data().graph());
  // A second ir.Model on the same graph shares it; the store refers to the newest one.
  self->bind(s, s->model.get());
}

void set_text(PyModel& self, std::string_view field, std::string_view text) {
  Model& m = *self.ptr;
  if (field == "producer_name") m.producer_name = text;
  if (field == "producer_version") m.producer_version = text;
  if (field == "domain") m.domain = text;
  if (field == "doc_string") m.doc = text;
}

nb::object get_text(PyModel& self, std::string_view field) {
  Model& m = *self.ptr;
  if (field == "producer_name") return str_or_none(m.producer_name);
  if (field == "producer_version") return str_or_none(m.producer_version);
  if (field == "domain") return str_or_none(m.domain);
  return str_or_none(m.doc);
}

nb::object clone_of(PyModel& self) {
  std::shared_ptr<Model> copy = clone_model(*self.ptr);
  return wrap_model(Store::of(std::move(copy)));
}

}  // namespace

void bind_ir_model(nb::module_& m) {
  nb::class_<PyFunction>(m, "FunctionBase", nb::is_weak_referenceable())
      .def("__init__", &init_function)
      .def_prop_rw(
          "name", [](PyFunction& self) { return self.data().name; },
          [](PyFunction& self, std::string t) { self.data().name = std::move(t); })
      .def_prop_rw(
          "domain", [](PyFunction& self) { return self.data().domain; },
          [](PyFunction& self, std::string t) { self.data().domain = std::move(t); })
      .def_prop_rw(
          "overload", [](PyFunction& self) { return self.data().overload; },
          [](PyFunction& self, std::string t) { self.data().overload = std::move(t); })
      .def("_doc", [](PyFunction& self) { return str_or_none(self.data().doc); })
      .def("_set_doc", [](PyFunction& self, std::string_view t) { self.data().doc = t; })
      .def("_metadata", [](PyFunction& self) { return metadata_to_python(self.data().metadata); })
      .def("_set_metadata", [](PyFunction& self, nb::handle pairs) { self.data().metadata = metadata_from_python(pairs); })
      .def("_attributes",
           [](PyFunction& self) {
             nb::list out;
             for (const std::string& name : self.data().attributes)
               out.append(nb::make_tuple(name, 0, nb::none(), nb::none(), nb::none()));
             for (const NamedAttr& a : self.data().default_attributes) {
               out.append(attribute_to_python(a, graph_of(self).store->model->types()));
             }
             return out;
           })
      .def(
          "_set_attributes",
          [](PyFunction& self, nb::handle items) { read_attributes(self.data(), graph_of(self).store->model->types(), items); })
      .def_prop_ro(
          "graph", [](PyFunction& self) { return self.graph; }, "The function's body.")
      .def_prop_ro("meta", [](PyFunction& self) { return self.graph.attr("meta"); });
  nb::class_<PyModel>(m, "ModelBase", nb::is_weak_referenceable())
      .def("__init__", &init_model, nb::arg("graph"), nb::arg("ir_version"), nb::arg("producer_name"),
           nb::arg("producer_version"), nb::arg("domain"), nb::arg("model_version").none(), nb::arg("doc"),
           nb::arg("functions"), nb::arg("metadata"))
      .def_prop_ro(
          "graph", [](PyModel& self) { return wrap(self.store, &self.ptr->graph()); }, "The main graph.")
      .def_prop_rw(
          "ir_version", [](PyModel& self) { return self.ptr->ir_version; },
          [](PyModel& self, int64_t v) { self.ptr->ir_version = v; })
      .def_prop_ro("_model_version", [](PyModel& self) { return self.ptr->model_version; })
      .def("_set_model_version", [](PyModel& self, int64_t v) { self.ptr->model_version = v; })
      .def("_get_text", &get_text)
      .def("_set_text", &set_text)
      .def("_metadata", [](PyModel& self) { return metadata_to_python(self.ptr->metadata); })
      .def("_set_metadata", [](PyModel& self, nb::handle pairs) { self.ptr->metadata = metadata_from_python(pairs); })
      .def_prop_ro("meta",
                   [](PyModel& self) {
                     nb::object& meta = self.store->meta[self.ptr];
                     if (!meta.is_valid()) meta = nb::dict();
                     return meta;
                   })
      .def("_functions",
           [](PyModel& self) {
             nb::list out;
             for (const auto& f : self.ptr->functions()) {
               if (f.get() != &self.ptr->main()) out.append(wrap(self.store, f.get()));
             }
             return out;
           })
      .def("_add_function",
           [](PyModel& self, PyFunction& f) {
             check_function(f);
             if (self.ptr->find_function(f.own->domain, f.own->name, f.own->overload) != nullptr) {
               refuse(fmt::format("the model has a function {} already", identify(*f.own)));
             }
             StorePtr s = combine({self.store, graph_of(f).store});
             add_function(s, f);
             resolve_ops(*s, f.data().graph());
           })
      .def("_remove_function", &remove_function)
      .def("clone", &clone_of, "A copy that shares nothing that can change.")
      .def("_equals", [](PyModel& self, PyModel& other) {
        std::string why;
        bool same = equal_models(*self.ptr, *other.ptr, &why);
        return nb::make_tuple(same, why);
      });
}

}  // namespace sardonyx::python
