// Converts types and dims between native tables and the plain Python objects that sardonyx/ir builds its
// classes from.
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include "native/ir/store.h"

namespace sardonyx::python {

nb::object str_or_none(std::string_view text) {
  if (text.empty()) return nb::none();
  return nb::str(text.data(), text.size());
}

nb::object type_to_python(const Type* t) {
  if (t == nullptr) return nb::none();
  switch (t->kind()) {
    case TypeKind::kTensor:
      if (t->dtype() == DType::kUndefined) return nb::none();
      return nb::make_tuple("tensor", static_cast<int>(t->dtype()));
    case TypeKind::kSparseTensor: return nb::make_tuple("sparse", static_cast<int>(t->dtype()));
    case TypeKind::kSequence: return nb::make_tuple("sequence", type_to_python(t->element()));
    case TypeKind::kOptional: return nb::make_tuple("optional", type_to_python(t->element()));
    case TypeKind::kMap: return nb::make_tuple("map", static_cast<int>(t->dtype()), type_to_python(t->element()));
    default: return nb::make_tuple("opaque", std::string(t->label()));
  }
}

nb::object dims_to_python(const Dims& dims, const Type* t) {
  while (t != nullptr && t->element() != nullptr) t = t->element();
  if (t == nullptr || !(t->is_tensor() || t->kind() == TypeKind::kSparseTensor) || !t->ranked()) return nb::none();
  nb::list list;
  for (Dim d : t->dims()) {
    if (d.is_int()) {
      list.append(d.value());
    } else if (d.is_unknown()) {
      list.append(nb::none());
    } else {
      list.append(dims.to_string(d));
    }
  }
  return list;
}

Dim dim_from_python(Dims& dims, nb::handle d) {
  if (d.is_none()) return dims.fresh_unknown();
  if (nb::isinstance<nb::str>(d)) {
    std::string text = nb::cast<std::string>(d);
    try {
      return dims.parse(text);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kParse) throw;
      return dims.symbol(text);  // any text may name a dimension in ONNX
    }
  }
  int64_t v = 0;
  if (!nb::try_cast<int64_t>(d, v)) refuse("a dimension is an integer, a string or None");
  return Dim::of(v);
}

const Type* type_from_python(Types& types, nb::handle type, nb::handle dims) {
  std::string_view kind = "tensor";
  int dtype = 0;
  nb::object inner;
  if (!type.is_none()) {
    nb::tuple t = nb::borrow<nb::tuple>(type);
    kind = nb::cast<std::string_view>(t[0]);
    if (kind == "sequence" || kind == "optional") {
      inner = t[1];
    } else if (kind == "map") {
      dtype = nb::cast<int>(t[1]);
      inner = t[2];
    } else if (kind != "opaque") {
      dtype = nb::cast<int>(t[1]);
    }
  }
  if (kind == "opaque")
    return types.make(TypeKind::kOpaque, DType::kUndefined, {}, {}, false, nb::cast<std::string_view>(type[1]));
  if (inner.is_valid()) {
    const Type* element = type_from_python(types, inner, dims);
    if (kind == "sequence") return types.sequence(element);
    if (kind == "optional") return types.optional(element);
    return types.make(TypeKind::kMap, static_cast<DType>(dtype), {&element, 1});
  }
  if (type.is_none() && dims.is_none()) return nullptr;
  const auto element = static_cast<DType>(dtype);
  std::vector<Dim> list;
  if (!dims.is_none()) {
    for (nb::handle d : dims) list.push_back(dim_from_python(types.dims(), d));
  }
  if (kind == "sparse") return types.make(TypeKind::kSparseTensor, element, {}, list, !dims.is_none());
  return dims.is_none() ? types.unranked(element) : types.tensor(element, std::span<const Dim>(list));
}

Metadata metadata_from_python(nb::handle pairs) {
  Metadata m;
  for (nb::handle item : pairs) {
    nb::tuple pair = nb::borrow<nb::tuple>(item);
    m.emplace_back(nb::cast<std::string>(pair[0]), nb::cast<std::string>(pair[1]));
  }
  return m;
}

nb::list metadata_to_python(const Metadata& m) {
  nb::list list;
  for (const auto& [key, value] : m) list.append(nb::make_tuple(key, value));
  return list;
}

namespace {

// Arithmetic on dims written as text, for SymbolicDim. The result is in normal form.
nb::object dim_arithmetic(std::string_view op, nb::handle a, nb::handle b) {
  Dims dims;
  Dim x = dim_from_python(dims, a), y = dim_from_python(dims, b);
  Dim r;
  if (op == "+") {
    r = dims.add(x, y);
  } else if (op == "-") {
    r = dims.sub(x, y);
  } else if (op == "*") {
    r = dims.mul(x, y);
  } else if (op == "//") {
    r = dims.floordiv(x, y);
  } else if (op == "ceildiv") {
    r = dims.ceildiv(x, y);
  } else if (op == "%") {
    r = dims.mod(x, y);
  } else if (op == "max") {
    r = dims.max(x, y);
  } else if (op == "min") {
    r = dims.min(x, y);
  } else {
    refuse(fmt::format("unknown operation '{}' on dimensions", op));
  }
  if (r.is_int()) return nb::int_(r.value());
  if (r.is_unknown()) return nb::none();
  return nb::str(dims.to_string(r).c_str());
}

nb::object dim_substitute(nb::handle d, nb::dict bindings) {
  Dims dims;
  Dim r = dims.substitute(dim_from_python(dims, d), [&](std::string_view name) -> std::optional<Dim> {
    nb::str key(name.data(), name.size());
    if (!bindings.contains(key)) return std::nullopt;
    return dim_from_python(dims, bindings[key]);
  });
  if (r.is_int()) return nb::int_(r.value());
  if (r.is_unknown()) return nb::none();
  return nb::str(dims.to_string(r).c_str());
}

std::vector<std::string> dim_symbols(nb::handle d) {
  Dims dims;
  return dims.symbols(dim_from_python(dims, d));
}

}  // namespace

void bind_ir(nb::module_& m) {
  // The classes and the lobby live until the process ends, which nanobind would report as leaks.
  nb::set_leak_warnings(false);
  m.def("dim_arithmetic", &dim_arithmetic, nb::arg("op"), nb::arg("a").none(), nb::arg("b").none());
  m.def("dim_substitute", &dim_substitute, nb::arg("dim").none(), nb::arg("bindings"));
  m.def("dim_symbols", &dim_symbols, nb::arg("dim").none());
  m.def("set_classes",
        [](nb::handle value, nb::handle node, nb::handle graph, nb::handle function, nb::handle model, nb::handle tensor) {
          // The classes live as long as the process: the module that defines them is never unloaded.
          python_classes() = {value.inc_ref(),    node.inc_ref(),  graph.inc_ref(),
                              function.inc_ref(), model.inc_ref(), tensor.inc_ref()};
        });
  m.def("newest_opset", [](std::string_view domain) { return dialect(DialectId::kOnnx).latest_version(domain); });
  bind_ir_tensor(m);
  bind_ir_value(m);
  bind_ir_node(m);
  bind_ir_graph(m);
  bind_ir_model(m);
  bind_ir_io(m);
  bind_ir_write(m);
  bind_ir_text(m);
}

}  // namespace sardonyx::python
