#include "native/infer.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <span>
#include <vector>

#include "native/unlocked.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace nb = nanobind;

namespace sardonyx::python {
namespace {

nb::object plain(const Type* t, const Dims& dims);

nb::object plain_dims(const Type& t, const Dims& dims) {
  if (!t.ranked()) return nb::none();
  nb::list out;
  for (Dim d : t.dims()) {
    if (d.is_int()) {
      out.append(nb::int_(d.value()));
    } else if (d.is_unknown()) {
      out.append(nb::none());
    } else {
      out.append(nb::str(dims.to_string(d).c_str()));
    }
  }
  return out;
}

nb::object plain(const Type* t, const Dims& dims) {
  if (t == nullptr) return nb::none();
  const nb::int_ dtype(static_cast<int>(t->dtype()));
  switch (t->kind()) {
    case TypeKind::kTensor: return nb::make_tuple("tensor", dtype, plain_dims(*t, dims));
    case TypeKind::kSparseTensor: return nb::make_tuple("sparse", dtype, plain_dims(*t, dims));
    case TypeKind::kSequence: return nb::make_tuple("sequence", plain(t->element(), dims));
    case TypeKind::kOptional: return nb::make_tuple("optional", plain(t->element(), dims));
    case TypeKind::kMap: return nb::make_tuple("map", dtype, plain(t->element(), dims));
    default: return nb::make_tuple("other");
  }
}

// Returns the types of the main graph's values by name, and messages about ill-typed nodes.
nb::tuple infer_types(nb::bytes data, bool forget_declared) {
  const auto given = std::as_bytes(std::span(data.c_str(), data.size()));
  auto bytes = std::make_shared<std::vector<std::byte>>(given.begin(), given.end());
  std::unique_ptr<Model> model = read_onnx_bytes(*bytes, bytes);
  Graph& g = model->graph();
  if (forget_declared) {
    for (size_t i = 0; i < g.outputs().size(); ++i) g.output_port(i).declared = nullptr;
    g.value_info.clear();
    for (Node& n : g.nodes()) {
      if (n.has(Trait::kConstant)) continue;
      for (Value& v : n.results()) v.set_type(nullptr);
    }
  }
  ValueFacts facts;
  std::vector<std::string> messages;
  {
    const Unlocked unlocked;
    messages = infer_model(*model, facts, /*tolerant=*/true);
  }
  nb::dict types;
  const auto put = [&](Name name, const Value& v) {
    const std::string_view text = name.view();
    if (!text.empty()) types[nb::str(text.data(), text.size())] = plain(v.type(), model->dims());
  };
  for (const Port& p : g.inputs()) put(p.name, *p.value);
  for (Node& n : g.nodes()) {
    for (const Value& v : n.results()) put(v.name(), v);
  }
  for (const Port& p : g.outputs()) put(p.name, *p.use->value);
  nb::list said;
  for (const std::string& m : messages) said.append(nb::str(m.data(), m.size()));
  return nb::make_tuple(types, said);
}

}  // namespace

void bind_infer(nb::module_& m) {
  m.def("infer_types", &infer_types, nb::arg("model"), nb::kw_only(), nb::arg("forget_declared") = true,
        "Types that inference finds for the values of an ONNX model's main graph: (name -> type, messages).");
}

}  // namespace sardonyx::python
