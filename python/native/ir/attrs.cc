// Converts attributes between nodes and Python: (name, type number, value, ref_attr_name or None, doc or
// None).
#include <fmt/format.h>

#include <algorithm>

#include "dialects/onnx/attribute_type.h"
#include "native/ir/store.h"

namespace sardonyx::python {

namespace {

using namespace attribute_type;

double as_f32(nb::handle v) { return static_cast<double>(static_cast<float>(nb::cast<double>(v))); }

// String attributes are bytes in ONNX. Bytes that are not UTF-8 become surrogates in Python.
std::string bytes_of(nb::handle v) {
  if (nb::isinstance<nb::bytes>(v)) {
    auto b = nb::borrow<nb::bytes>(v);
    return std::string(b.c_str(), b.size());
  }
  PyObject* encoded = PyUnicode_AsEncodedString(v.ptr(), "utf-8", "surrogateescape");
  if (encoded == nullptr) throw nb::python_error();
  auto b = nb::steal<nb::bytes>(encoded);
  return std::string(b.c_str(), b.size());
}

nb::object text_of(std::string_view s) {
  PyObject* decoded = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal(decoded);
}

TensorPtr tensor_of(nb::handle v, std::vector<std::string>& fields) {
  PyTensor* t = nullptr;
  if (!nb::try_cast<PyTensor*>(v, t) || t == nullptr)
    refuse_type("a tensor attribute takes an ir.Tensor: make one with ir.tensor(...)");
  fields.push_back(tensor_fields(*t));
  return t->tensor;
}

// (values, indices, dims)
Attr sparse_of(nb::handle v, std::vector<std::string>& fields) {
  nb::tuple t = nb::borrow<nb::tuple>(v);
  Attr::Ints dims;
  for (nb::handle d : nb::borrow<nb::tuple>(t[2])) dims.push_back(nb::cast<int64_t>(d));
  Attr values = tensor_of(t[0], fields), indices = tensor_of(t[1], fields);
  return AttrDict{{"values", std::move(values)}, {"indices", std::move(indices)}, {"dims", std::move(dims)}};
}

const Type* type_of(Types& types, nb::handle v) {
  nb::tuple pair = nb::borrow<nb::tuple>(v);
  return type_from_python(types, pair[0], pair[1]);
}

template <class T, class Read>
std::vector<T> each(nb::handle list, Read&& read) {
  std::vector<T> out;
  for (nb::handle v : list) out.push_back(read(v));
  return out;
}

// Whether the parts are those that files and Python give a sparse tensor.
bool is_sparse(const AttrDict& parts) {
  return parts.size() == 3 && parts[0].second.get<TensorPtr>() != nullptr && parts[1].second.get<TensorPtr>() != nullptr &&
         parts[2].second.get<Attr::Ints>() != nullptr;
}

bool is_graph_kind(int type) { return type == kGraph || type == kGraphs; }

}  // namespace

NamedAttr attribute_from_python(Types& types, nb::handle item) {
  nb::tuple t = nb::borrow<nb::tuple>(item);
  NamedAttr a;
  a.name = nb::cast<std::string>(t[0]);
  const int type = nb::cast<int>(t[1]);
  nb::object v = t[2];
  if (!t[4].is_none()) a.doc = nb::cast<std::string>(t[4]);
  if (!t[3].is_none()) {
    a.value = RefAttr{nb::cast<std::string>(t[3]), type};
    return a;
  }
  std::vector<std::string> fields;
  try {
    switch (type) {
      case kFloat: a.value = as_f32(v); break;
      case kInt: a.value = nb::cast<int64_t>(v); break;
      case kString: a.value = bytes_of(v); break;
      case kTensor: a.value = tensor_of(v, fields); break;
      case kFloats: a.value = each<double>(v, as_f32); break;
      case kInts: a.value = each<int64_t>(v, [](nb::handle x) { return nb::cast<int64_t>(x); }); break;
      case kStrings: a.value = each<std::string>(v, bytes_of); break;
      case kTensors: a.value = each<TensorPtr>(v, [&](nb::handle x) { return tensor_of(x, fields); }); break;
      case kType: a.value = type_of(types, v); break;
      case kTypes: a.value = each<const Type*>(v, [&](nb::handle x) { return type_of(types, x); }); break;
      case kSparseTensor: a.value = sparse_of(v, fields); break;
      case kSparseTensors: a.value = each<Attr>(v, [&](nb::handle x) { return sparse_of(x, fields); }); break;
      default: refuse(fmt::format("attribute '{}' has no type that a node can hold ({})", a.name, type));
    }
  } catch (const nb::cast_error&) {
    refuse(fmt::format("attribute '{}': its value does not fit its type", a.name));
  }
  if (!std::ranges::all_of(fields, &std::string::empty)) a.tensor_fields = std::move(fields);
  return a;
}

nb::tuple attribute_to_python(const NamedAttr& a, const Types& types) {
  int type = kUndefined;
  nb::object value = nb::none(), ref = nb::none();
  auto list = [&](int t, const auto& items, auto&& write) {
    type = t;
    nb::list out;
    for (const auto& x : items) out.append(write(x));
    value = out;
  };
  auto type_pair = [&](const Type* t) { return nb::make_tuple(type_to_python(t), dims_to_python(types.dims(), t)); };
  const Attr& v = a.value;
  size_t tensors = 0;
  auto tensor = [&](const TensorPtr& t) {
    const size_t at = tensors++;
    return wrap_tensor_with(t, at < a.tensor_fields.size() ? std::string_view(a.tensor_fields[at]) : std::string_view());
  };
  auto sparse = [&](const AttrDict& parts) {
    nb::object values = tensor(*parts[0].second.get<TensorPtr>()), indices = tensor(*parts[1].second.get<TensorPtr>());
    nb::list dims;
    for (int64_t d : *parts[2].second.get<Attr::Ints>()) dims.append(d);
    return nb::make_tuple(values, indices, nb::tuple(dims));
  };
  if (const auto* i = v.get<int64_t>()) {
    type = kInt;
    value = nb::int_(*i);
  } else if (const auto* b = v.get<bool>()) {
    type = kInt;
    value = nb::int_(*b ? 1 : 0);
  } else if (const auto* f = v.get<double>()) {
    type = kFloat;
    value = nb::float_(*f);
  } else if (const auto* s = v.get<std::string>()) {
    type = kString;
    value = text_of(*s);
  } else if (const auto* t = v.get<TensorPtr>()) {
    type = kTensor;
    value = tensor(*t);
  } else if (const auto* parts = v.get<AttrDict>(); parts != nullptr && is_sparse(*parts)) {
    type = kSparseTensor;
    value = sparse(*parts);
  } else if (const auto* many = v.get<AttrList>(); many != nullptr && std::ranges::all_of(*many, [](const Attr& x) {
                                                     return x.get<AttrDict>() != nullptr && is_sparse(*x.get<AttrDict>());
                                                   })) {
    list(kSparseTensors, *many, [&](const Attr& x) { return sparse(*x.get<AttrDict>()); });
  } else if (const auto* t2 = v.get<const Type*>()) {
    type = kType;
    value = type_pair(*t2);
  } else if (const auto* ints = v.get<Attr::Ints>()) {
    list(kInts, *ints, [](int64_t x) { return nb::int_(x); });
  } else if (const auto* floats = v.get<Attr::Floats>()) {
    list(kFloats, *floats, [](double x) { return nb::float_(x); });
  } else if (const auto* strings = v.get<Attr::Strings>()) {
    list(kStrings, *strings, [](const std::string& x) { return text_of(x); });
  } else if (const auto* all_tensors = v.get<Attr::Tensors>()) {
    list(kTensors, *all_tensors, tensor);
  } else if (const auto* all = v.get<Attr::TypeList>()) {
    list(kTypes, *all, type_pair);
  } else if (const auto* r = v.get<RefAttr>()) {
    type = r->type;
    ref = nb::str(r->name.c_str(), r->name.size());
  } else {
    value = nb::str(to_string(v, types).c_str());
  }
  return nb::make_tuple(a.name, type, value, ref, str_or_none(a.doc));
}

std::vector<PyGraph*> graphs_among(nb::handle items) {
  std::vector<PyGraph*> found;
  auto take = [&](nb::handle g) {
    PyGraph* graph = nullptr;
    if (!nb::try_cast<PyGraph*>(g, graph) || graph == nullptr) refuse_type("a graph attribute takes an ir.Graph");
    found.push_back(graph);
  };
  for (nb::handle item : items) {
    nb::tuple t = nb::borrow<nb::tuple>(item);
    const int type = nb::cast<int>(t[1]);
    if (!t[3].is_none() || !is_graph_kind(type)) continue;
    if (type == kGraph) {
      take(t[2]);
    } else {
      for (nb::handle g : t[2]) take(g);
    }
  }
  return found;
}

namespace {

// The payload of a Constant node, if its attributes give it directly. Null otherwise.
TensorPtr payload_of(const Attrs& attrs) {
  for (const NamedAttr& a : attrs.items()) {
    if (a.name == "value") {
      if (const auto* t = a.value.get<TensorPtr>()) return *t;
    } else if (a.name == "value_int") {
      if (const auto* i = a.value.get<int64_t>()) return Tensor::scalar(*i);
    } else if (a.name == "value_ints") {
      if (const auto* v = a.value.get<Attr::Ints>()) return Tensor::vector(*v);
    } else if (a.name == "value_float") {
      if (const auto* f = a.value.get<double>())
        return Tensor::of<float>(DType::kF32, {}, std::vector<float>{static_cast<float>(*f)});
    } else if (a.name == "value_floats") {
      if (const auto* v = a.value.get<Attr::Floats>()) {
        std::vector<float> floats(v->begin(), v->end());
        return Tensor::of<float>(DType::kF32, {static_cast<int64_t>(floats.size())}, floats);
      }
    } else if (a.name == "value_string") {
      if (const auto* s = a.value.get<std::string>()) return Tensor::strings({}, {*s});
    } else if (a.name == "value_strings") {
      if (const auto* s = a.value.get<Attr::Strings>()) return Tensor::strings({static_cast<int64_t>(s->size())}, *s);
    }
  }
  return nullptr;
}

}  // namespace

void set_attributes(const StorePtr& s, Node& n, nb::handle items) {
  Model& m = *s->model;
  // Check everything that can be refused before changing anything.
  AttrInit plain;
  std::unordered_set<std::string> names;
  std::vector<std::pair<std::string, Graph*>> bodies;
  for (nb::handle item : items) {
    nb::tuple t = nb::borrow<nb::tuple>(item);
    std::string name = nb::cast<std::string>(t[0]);
    const int type = nb::cast<int>(t[1]);
    if (!names.insert(name).second) refuse(fmt::format("attribute '{}' is given twice", name));
    if (t[3].is_none() && is_graph_kind(type)) {
      for (PyGraph* g : graphs_among(nb::make_tuple(item))) bodies.emplace_back(name, &live(*g));
      continue;
    }
    const Attr* same = n.attr(name);
    if (same == nullptr && n.extra() != nullptr && n.extra()->payload_attrs != nullptr)
      same = n.extra()->payload_attrs->find(name);
    if (same != nullptr && type == kUndefined) {  // a kind that only files contain: keep it
      plain.push_back({name, *same});
    } else {
      plain.push_back(attribute_from_python(m.types(), item));
    }
  }
  std::unordered_set<Graph*> seen;
  for (auto& [name, g] : bodies) {
    const bool own = g->parent() == &n;
    if (!own && (g->parent() != nullptr || g->function() != nullptr)) {
      refuse(
          fmt::format("{} is already owned by {}", describe(*g), g->parent() ? describe(*g->parent()) : "a function or model"),
          {"give the attribute a copy: graph.clone()"});
    }
    if (!seen.insert(g).second)
      refuse(fmt::format("{} is given twice as an attribute", describe(*g)), {"give a copy: graph.clone()"});
    for (Graph* at = n.graph(); at != nullptr; at = at->enclosing()) {
      if (at == g) refuse(fmt::format("{} cannot be nested in itself", describe(*g)));
    }
  }
  while (!n.bodies().empty()) s->roots.push_back(&n.remove_body(n.bodies().size() - 1));
  for (auto& [name, g] : bodies) n.add_body(name, *g);
  join_bodies(*s, n);
  const Attrs* attrs = m.attrs(std::move(plain));
  n.set_unchecked(true);
  if (n.has(Trait::kConstant) && n.num_results() == 1) {
    // As the reader does it: the constant's value is its payload, and payload_attrs records the attributes
    // that spelled it.
    TensorPtr payload = attrs->items().size() == 1 ? payload_of(*attrs) : nullptr;
    if (payload != nullptr || n.extra() != nullptr) {
      NodeExtra& extra = m.edit_extra(n);
      extra.payload = payload;
      extra.payload_attrs = payload != nullptr ? attrs : nullptr;
    }
    if (payload != nullptr) {
      if (n.result()->type() == nullptr) n.result()->set_type(m.types().tensor(payload->dtype(), payload->shape()));
      attrs = m.empty_attrs();
      n.set_unchecked(false);
    }
  }
  n.set_attrs(attrs);
}

nb::list attributes_to_python(const StorePtr& s, Node& n) {
  nb::list out;
  for (const NamedAttr& a : n.attrs().items()) out.append(attribute_to_python(a, s->model->types()));
  if (n.has(Trait::kConstant) && n.extra() != nullptr && n.extra()->payload != nullptr) {
    if (const Attrs* spelled = n.extra()->payload_attrs) {
      for (const NamedAttr& a : spelled->items()) out.append(attribute_to_python(a, s->model->types()));
    } else {
      out.append(nb::make_tuple("value", static_cast<int>(kTensor), wrap_tensor(n.extra()->payload), nb::none(), nb::none()));
    }
  }
  auto bodies = n.bodies();
  for (size_t i = 0; i < bodies.size();) {
    std::string_view name = bodies[i].name.view();
    size_t end = i;
    nb::list graphs;
    for (; end < bodies.size() && bodies[end].name.view() == name; ++end) graphs.append(wrap(s, bodies[end].graph));
    bool many = end - i > 1;
    for (const AttrSpec& spec : n.op().attrs) {
      if (spec.name == name) many = spec.kind == AttrKind::kGraphs;
    }
    nb::object value = many ? nb::object(graphs) : nb::object(graphs[0]);
    out.append(nb::make_tuple(std::string(name), static_cast<int>(many ? kGraphs : kGraph), value, nb::none(), nb::none()));
    i = end;
  }
  return out;
}

}  // namespace sardonyx::python
