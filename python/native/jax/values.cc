#include "native/jax/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "native/python_api.h"

namespace sardonyx::python {
namespace {

// Parameters for compilers and autodiff that do not affect values.
constexpr std::string_view kIgnored[] = {
    "bwd",         "compiler_options_kvs", "ctx_mesh",        "donated_invars",
    "ft_out",      "fwd_jaxpr_thunk",      "in_layouts",      "in_shardings",
    "inline",      "jvp_jaxpr_fun",        "jvp_jaxpr_thunk", "keep_unused",
    "out_layouts", "out_sharding",         "out_shardings",   "out_trees",
    "policy",      "prevent_cse",          "resource_env",    "sharding",
};
static_assert(std::ranges::is_sorted(kIgnored));

[[noreturn]] void raise_python() { throw nb::python_error(); }

nb::object checked(PyObject* object) {
  if (object == nullptr) raise_python();
  return nb::steal(object);
}

bool is_instance(nb::handle object, nb::handle cls) {
  int answer = PyObject_IsInstance(object.ptr(), cls.ptr());
  if (answer < 0) raise_python();
  return answer == 1;
}

bool is_exactly(nb::handle object, nb::handle cls) { return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == cls.ptr(); }

int64_t to_int(nb::handle object) {
  nb::object index = checked(PyNumber_Index(object.ptr()));
  int64_t v = PyLong_AsLongLong(index.ptr());
  if (v == -1 && PyErr_Occurred()) raise_python();
  return v;
}

// The class of a symbolic dim, jax._src.export.shape_poly._DimExpr. Compared by name, so that jax.export need
// not be imported.
bool is_dim_class(PyTypeObject* t) { return is_named(t, "_DimExpr"); }

std::vector<std::byte> pack_sub_byte(std::span<const std::byte> bytes, int bits) {
  std::vector<std::byte> packed((bytes.size() * static_cast<size_t>(bits) + 7) / 8);
  unsigned mask = (1u << bits) - 1;
  for (size_t i = 0; i < bytes.size(); ++i) {
    size_t bit = i * static_cast<size_t>(bits);
    packed[bit / 8] |= static_cast<std::byte>((std::to_integer<unsigned>(bytes[i]) & mask) << (bit % 8));
  }
  return packed;
}

nb::object import_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    nb::object module = nb::steal(PyImport_ImportModule(name));
    if (module.is_valid()) return module;
    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) || name == *(names.end() - 1)) raise_python();
    PyErr_Clear();
  }
  return {};
}

// The buffer protocol's format characters for a dtype. Empty for bfloat16 and others that the protocol does
// not cover.
std::string_view formats(DType t) {
  switch (t) {
    case DType::kF64: return "d";
    case DType::kF32: return "f";
    case DType::kF16: return "e";
    case DType::kI64: return "ql";
    case DType::kI32: return "il";
    case DType::kI16: return "h";
    case DType::kI8: return "b";
    case DType::kU64: return "QL";
    case DType::kU32: return "IL";
    case DType::kU16: return "H";
    case DType::kU8: return "B";
    case DType::kBool: return "?";
    case DType::kC64: return "f";  // after a Z, as the next
    case DType::kC128: return "d";
    default: return {};
  }
}

bool has_format(DType t) { return !formats(t).empty(); }

// Whether the buffer's elements have the dtype.
bool is_of_type(const Py_buffer& view, DType type) {
  if (view.format == nullptr || view.itemsize * 8 != bit_width(type)) return false;
  std::string_view format = view.format;
  if (format.starts_with('=') || format.starts_with('@')) format.remove_prefix(1);
  if (is_complex(type)) {
    if (!format.starts_with('Z')) return false;
    format.remove_prefix(1);
  }
  return format.size() == 1 && formats(type).find(format[0]) != std::string_view::npos;
}

TensorPtr scalar_of(DType type, std::string_view bytes) {
  auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return Tensor::own(type, {}, std::vector<std::byte>(first, first + bytes.size()));
}

// Appends the bytes of a Python number (or an instance of a subclass). Returns false if `type` does not match
// or the number is out of range.
bool append_number(nb::handle value, DType type, std::string& bytes) {
  const auto append = [&](auto v, size_t size) { bytes.append(reinterpret_cast<const char*>(&v), size); };
  if (PyFloat_Check(value.ptr())) {
    const double v = PyFloat_AsDouble(value.ptr());
    if (type == DType::kF64) append(v, sizeof v);
    if (type == DType::kF32) append(static_cast<float>(v), sizeof(float));
    return type == DType::kF64 || type == DType::kF32;
  }
  if (PyBool_Check(value.ptr())) {
    if (type == DType::kBool) append(static_cast<uint8_t>(value.ptr() == Py_True ? 1 : 0), 1);
    return type == DType::kBool;
  }
  if (!PyLong_Check(value.ptr()) || !is_integer(type) || !has_format(type)) return false;
  int overflow = 0;
  const int64_t v = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  const int bits = bit_width(type);
  if (overflow != 0 || (is_unsigned(type) && v < 0)) return false;
  const int room = is_unsigned(type) ? bits : bits - 1;
  if (room < 63 && (v >> room) != (v < 0 ? -1 : 0)) return false;
  append(v, static_cast<size_t>(bits / 8));  // low bytes first
  return true;
}

// Releases a buffer view and with it the array.
struct Buffer {
  Py_buffer view{};
  ~Buffer() {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(&view);
    PyGILState_Release(state);
  }
};

}  // namespace

const JaxClasses& JaxClasses::get() {
  // Never destroyed: the interpreter may be gone by then.
  static const JaxClasses* classes = [] {
    auto* c = new JaxClasses;
    nb::object core = nb::module_::import_("jax._src.core");
    nb::object prng = import_first({"jax._src.random.prng", "jax._src.prng"});  // new and old location
    nb::object numpy = nb::module_::import_("numpy");
    // From JAX 0.12 on one class with an attribute `consts`, under both names.
    c->closed_jaxpr = nb::module_::import_("jax.extend.core").attr("ClosedJaxpr");
    c->jaxpr = core.attr("Jaxpr");
    c->literal = core.attr("Literal");
    c->shaped_array = core.attr("ShapedArray");
    c->jax_array = nb::module_::import_("jax").attr("Array");
    c->key_array = prng.attr("PRNGKeyArray");
    c->key_type = prng.attr("KeyTy");
    c->enum_class = nb::module_::import_("enum").attr("Enum");
    c->np_dtype = numpy.attr("dtype");
    c->np_generic = numpy.attr("generic");
    c->np_int64 = numpy.attr("int64");
    c->np_ndarray = numpy.attr("ndarray");
    c->np_asarray = numpy.attr("asarray");
    c->np_ascontiguousarray = numpy.attr("ascontiguousarray");
    return c;
  }();
  return *classes;
}

nb::object get_attr(nb::handle object, PyObject* name) { return checked(PyObject_GetAttr(object.ptr(), name)); }

nb::object find_attr(nb::handle object, PyObject* name) {
  PyObject* found = nullptr;
  const int answer = optional_attr(object.ptr(), name, &found);
  if (answer < 0) raise_python();
  return nb::steal(found);
}

std::string text_of(nb::handle object) {
  nb::object text = checked(PyObject_Str(object.ptr()));
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) raise_python();
  return std::string(bytes, static_cast<size_t>(size));
}

std::string class_name(nb::handle object) { return bare_name(Py_TYPE(object.ptr())); }

std::shared_ptr<const void> keep_python(nb::object object) {
  return {object.release().ptr(), [](PyObject* p) {
            if (!Py_IsInitialized()) return;  // the process is ending: leak the reference
            PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(p);
            PyGILState_Release(state);
          }};
}

DType JaxValues::dtype(nb::handle dtype) {
  auto [at, fresh] = dtypes_.try_emplace(dtype.ptr());
  if (!fresh) return at->second.second;
  at->second.first = nb::borrow(dtype);
  DType& answer = at->second.second;
  // NumPy builds a dtype's name anew on each access, so remember each type number for the process.
  static auto* by_number = new std::unordered_map<int64_t, DType>;
  const bool is_numpy = PyObject_TypeCheck(dtype.ptr(), reinterpret_cast<PyTypeObject*>(JaxClasses::get().np_dtype.ptr()));
  const int64_t number = is_numpy ? to_int(get_attr<"num">(dtype)) : -1;
  if (is_numpy) {
    if (auto known = by_number->find(number); known != by_number->end()) return answer = known->second;
  }
  std::string name = text_of(get_attr<"name">(dtype));
  if (is_instance(dtype, JaxClasses::get().key_type)) {
    nb::tuple words = nb::cast<nb::tuple>(get_attr<"key_shape">(get_attr<"_impl">(dtype)));
    const int64_t count = nb::len(words) == 1 ? to_int(words[0]) : 0;
    if (count != 2 && count != 4) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("random keys of kind '{}' are not supported: they do not have 2 or 4 words", name),
                  {"help: use jax.random.key(seed, impl=\"threefry2x32\"), JAX's default"});
    }
    return answer = count == 2 ? DType::kKey : DType::kKey4;
  }
  if (auto known = parse_dtype(name)) {
    if (is_numpy) by_number->emplace(number, *known);
    return answer = *known;
  }
  // float0, the tangent type of integers, is a structured dtype with one field of that name.
  if (text_of(dtype).find("float0") != std::string::npos) return answer = DType::kFloat0;
  if (name.starts_with("float") || name.starts_with("int") || name.starts_with("uint")) {
    throw Error(ErrorCode::kUnsupported, fmt::format("dtype '{}' is not supported: ONNX has no such element type", name),
                {"help: of 8 bits ONNX has float8_e4m3fn, e5m2, e4m3fnuz, e5m2fnuz and e8m0fnu, of 4 float4_e2m1fn, int4 and "
                 "uint4, of 2 "
                 "int2 and uint2"});
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("dtype '{}' is not supported", name));
}

Dim JaxValues::dim(nb::handle size) {
  if (PyLong_CheckExact(size.ptr())) {
    int64_t v = PyLong_AsLongLong(size.ptr());
    if (v == -1 && PyErr_Occurred()) raise_python();
    return Dim::of(v);
  }
  if (!is_dim_class(Py_TYPE(size.ptr()))) return Dim::of(to_int(size));
  auto [at, fresh] = dims_.try_emplace(size.ptr());
  if (fresh) at->second = {nb::borrow(size), model_.dims().parse(text_of(size))};
  return at->second.second;
}

const Type* JaxValues::type(nb::handle aval) {
  auto [at, fresh] = types_.try_emplace(aval.ptr());
  if (!fresh) return at->second.second;
  at->second.first = nb::borrow(aval);
  Types& types = model_.types();
  if (!is_exactly(aval, JaxClasses::get().shaped_array)) {
    const std::string cls = class_name(aval);
    if (cls == "AbstractToken") return at->second.second = types.make(TypeKind::kToken, DType::kUndefined, {});
    if (cls == "AbstractRef" || !has_attr<"shape">(aval) || !has_attr<"dtype">(aval)) {
      return at->second.second = types.make(TypeKind::kOpaque, DType::kUndefined, {}, {}, false, cls);
    }
  }
  std::vector<Dim> dims;
  nb::object shape = get_attr<"shape">(aval);
  nb::object items = checked(PySequence_Fast(shape.ptr(), "the shape of an abstract value is not a sequence"));
  for (Py_ssize_t i = 0; i < fast_size(items.ptr()); ++i) {
    dims.push_back(dim(fast_item(items.ptr(), i)));
  }
  return at->second.second = types.tensor(dtype(get_attr<"dtype">(aval)), dims);
}

bool JaxValues::is_key_array(nb::handle value) { return is_instance(value, JaxClasses::get().key_array); }

bool JaxValues::has_other_generator(nb::handle eqn) {
  const std::string name = text_of(get_attr<"name">(get_attr<"primitive">(eqn)));
  if (name == "random_wrap" || name == "random_unwrap" || name == "random_clone") return false;
  nb::object vars = name == "random_seed" ? get_attr<"outvars">(eqn) : get_attr<"invars">(eqn);
  nb::object first = checked(PySequence_GetItem(vars.ptr(), 0));
  nb::object dtype = get_attr<"dtype">(get_attr<"aval">(first));
  return is_instance(dtype, JaxClasses::get().key_type) && text_of(get_attr<"name">(dtype)) != "key<fry>";
}

TensorPtr JaxValues::lent(nb::handle array, DType type) {
  if (!has_format(type) || !PyObject_CheckBuffer(array.ptr())) return nullptr;
  auto lender = std::make_shared<Buffer>();
  const Py_buffer& view = lender->view;
  if (PyObject_GetBuffer(array.ptr(), &lender->view, PyBUF_FULL_RO) != 0) {  // an array on a device, or on several
    PyErr_Clear();
    return nullptr;
  }
  if (!is_of_type(view, type) || PyBuffer_IsContiguous(&view, 'C') == 0) return nullptr;
  std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
  const std::span bytes(static_cast<const std::byte*>(view.buf), static_cast<size_t>(view.len));
  return Tensor::borrow(type, std::move(shape), bytes, std::move(lender));
}

TensorPtr JaxValues::tensor(nb::handle array) {
  const JaxClasses& c = JaxClasses::get();
  // On the CPU, a jax.Array's NumPy view is its own buffer.
  nb::object np = c.np_asarray(array);
  DType type = dtype(get_attr<"dtype">(np));
  if (TensorPtr borrowed = lent(np, type)) return borrowed;
  if (!nb::cast<bool>(get_attr<"c_contiguous">(get_attr<"flags">(np)))) np = c.np_ascontiguousarray(np);

  std::vector<int64_t> shape;
  for (nb::handle n : nb::tuple(get_attr<"shape">(np))) shape.push_back(to_int(n));
  size_t bytes = nb::cast<size_t>(get_attr<"nbytes">(np));
  // Dtypes without a buffer format offer this interface.
  nb::object interface = get_attr<"__array_interface__">(np);
  nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  auto* first = static_cast<const std::byte*>(PyLong_AsVoidPtr(nb::handle(data[0]).ptr()));
  if (int bits = bit_width(type); bits > 0 && bits < 8 && type != DType::kBool) {
    return Tensor::own(type, std::move(shape), pack_sub_byte({first, bytes}, bits));
  }
  return Tensor::borrow(type, std::move(shape), {first, bytes}, keep_python(std::move(np)));
}

bool JaxValues::append_scalar(nb::handle value, nb::handle aval, std::string& bytes) {
  nb::object want = get_attr<"dtype">(aval);
  auto* array = reinterpret_cast<PyTypeObject*>(JaxClasses::get().np_ndarray.ptr());
  if (!PyObject_TypeCheck(value.ptr(), array)) return append_number(value, dtype(want), bytes);
  if (!has_format(dtype(want)) || !get_attr<"dtype">(value).is(want)) return false;
  Buffer buffer;
  if (PyObject_GetBuffer(value.ptr(), &buffer.view, PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  if (buffer.view.ndim != 0) return false;
  bytes.append(static_cast<const char*>(buffer.view.buf), static_cast<size_t>(buffer.view.len));
  return true;
}

TensorPtr JaxValues::literal(nb::handle value, nb::handle aval) {
  std::string bytes;
  nb::object want = get_attr<"dtype">(aval);
  // The common case. Copying at most eight bytes costs less than keeping an owner.
  if (append_scalar(value, aval, bytes)) return scalar_of(dtype(want), bytes);
  if (TensorPtr borrowed = lent(value, dtype(want))) return borrowed;
  const JaxClasses& c = JaxClasses::get();
  if (is_instance(value, c.np_ndarray) && get_attr<"dtype">(value).is(want)) return tensor(value);
  return tensor(c.np_asarray(value, want));
}

JaxValues::Kind JaxValues::kind(nb::handle value) {
  PyTypeObject* t = Py_TYPE(value.ptr());
  if (t == &PyLong_Type) return Kind::kInt;
  if (t == &PyTuple_Type || t == &PyList_Type) return Kind::kSequence;
  if (t == &PyBool_Type) return Kind::kBool;
  if (t == &PyFloat_Type) return Kind::kFloat;
  if (t == &PyUnicode_Type) return Kind::kText;
  if (value.is_none()) return Kind::kNone;
  auto [at, fresh] = kinds_.try_emplace(reinterpret_cast<PyObject*>(t));
  if (!fresh) return at->second.second;
  at->second.first = nb::borrow(reinterpret_cast<PyObject*>(t));
  const JaxClasses& c = JaxClasses::get();
  PyObject* v = value.ptr();
  Kind k = Kind::kOpaque;
  if (is_exactly(value, c.closed_jaxpr) || is_exactly(value, c.jaxpr)) {
    k = Kind::kJaxpr;
  } else if (is_instance(value, c.enum_class)) {  // before int and str, which enums may subclass
    k = Kind::kEnum;
  } else if (is_instance(value, c.np_generic)) {  // before float, which np.float64 subclasses
    k = Kind::kNumpyScalar;
  } else if (PyLong_Check(v)) {
    k = Kind::kInt;
  } else if (PyFloat_Check(v)) {
    k = Kind::kFloat;
  } else if (PyUnicode_Check(v)) {
    k = Kind::kText;
  } else if (is_dim_class(t)) {
    k = Kind::kDim;
  } else if (PyTuple_Check(v) || PyList_Check(v)) {
    k = has_attr<"_fields">(value) ? Kind::kNamedTuple : Kind::kSequence;
  } else if (PyDict_Check(v)) {
    k = Kind::kDict;
  } else if (is_instance(value, c.np_dtype)) {
    k = Kind::kDType;
  } else if (is_instance(value, c.key_type)) {
    k = Kind::kKeyType;
  } else if (is_instance(value, c.key_array)) {
    k = Kind::kKeyArray;
  } else if (is_instance(value, c.np_ndarray) || is_instance(value, c.jax_array)) {
    k = Kind::kArray;
  } else if (is_instance(value, c.closed_jaxpr) || is_instance(value, c.jaxpr)) {
    k = Kind::kJaxpr;
  } else if (PyType_Check(v)) {
    k = Kind::kScalarClass;  // perhaps: checked below
  } else if (has_attr<"__dataclass_fields__">(value) && has_attr<"__module__">(value) &&
             text_of(get_attr<"__module__">(value)).starts_with("jax._src.lax")) {
    k = Kind::kDataclass;
  }
  return at->second.second = k;
}

Attr JaxValues::attr(nb::handle value, std::string_view path, std::vector<NestedJaxpr>& nested, int depth) {
  const JaxClasses& c = JaxClasses::get();
  auto opaque = [&] {
    std::string name(class_name(value));
    if (name == "Primitive") return Attr(text_of(get_attr<"name">(value)));
    if (PyCallable_Check(value.ptr()) && has_attr<"__name__">(value)) {
      name = fmt::format("function {}", text_of(get_attr<"__name__">(value)));
    }
    return Attr(OpaqueAttr{std::move(name)});
  };
  if (depth > 16) return opaque();
  switch (kind(value)) {
    case Kind::kNone: return {};
    case Kind::kBool: return Attr(value.ptr() == Py_True);
    case Kind::kEnum: return Attr(text_of(get_attr<"name">(value)));
    case Kind::kInt: {
      int overflow = 0;
      int64_t v = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
      if (v == -1 && PyErr_Occurred()) raise_python();
      return overflow ? Attr(OpaqueAttr{text_of(value)}) : Attr(v);
    }
    case Kind::kFloat: return Attr(PyFloat_AsDouble(value.ptr()));
    case Kind::kText: return Attr(text_of(value));
    case Kind::kDim: {
      Dim d = dim(value);
      return d.is_int() ? Attr(d.value()) : Attr(d);
    }
    case Kind::kSequence: return sequence(value, path, nested, depth);
    case Kind::kDType: return Attr(dtype(value));
    case Kind::kKeyType: return Attr(dtype(value));
    case Kind::kNumpyScalar: {
      DType type = dtype(get_attr<"dtype">(value));
      if (is_complex(type)) return Attr(tensor(value));
      nb::object item = is_integer(type) || type == DType::kBool ? nb::object(get_attr<"item">(value)())
                                                                 : checked(PyNumber_Float(value.ptr()));
      return attr(item, path, nested, depth + 1);
    }
    case Kind::kArray: return Attr(tensor(value));
    case Kind::kJaxpr: nested.push_back({std::string(path), nb::borrow(value)}); return {};
    case Kind::kScalarClass: {  // jnp.float32 and np.float32 used as a dtype
      if (!has_attr<"dtype">(value)) return opaque();
      nb::object made = nb::steal(PyObject_CallFunctionObjArgs(c.np_dtype.ptr(), value.ptr(), nullptr));
      if (!made.is_valid()) {
        PyErr_Clear();
        return opaque();
      }
      auto known = parse_dtype(text_of(get_attr<"name">(made)));
      return known ? Attr(*known) : opaque();
    }
    case Kind::kNamedTuple: {
      if (class_name(value) == "PRNGImpl") return Attr(text_of(get_attr<"tag">(value)));  // its other fields are functions
      AttrDict fields;
      nb::object names = get_attr<"_fields">(value);
      size_t i = 0;
      for (nb::handle name : nb::cast<nb::tuple>(names)) {
        std::string field = text_of(name);
        nb::object item = checked(PySequence_GetItem(value.ptr(), static_cast<Py_ssize_t>(i++)));
        fields.emplace_back(field, attr(item, fmt::format("{}.{}", path, field), nested, depth + 1));
      }
      return Attr(std::move(fields));
    }
    case Kind::kDict:
    case Kind::kDataclass: {
      AttrDict fields;
      bool dict = PyDict_Check(value.ptr());
      nb::object keys = dict ? nb::borrow(value) : get_attr<"__dataclass_fields__">(value);
      PyObject *key = nullptr, *entry = nullptr;
      Py_ssize_t pos = 0;
      while (PyDict_Next(keys.ptr(), &pos, &key, &entry)) {
        std::string field = text_of(key);
        nb::object item = dict ? nb::borrow(entry) : checked(PyObject_GetAttr(value.ptr(), key));
        fields.emplace_back(field, attr(item, fmt::format("{}.{}", path, field), nested, depth + 1));
      }
      return Attr(std::move(fields));
    }
    case Kind::kKeyArray:
    case Kind::kOpaque: break;
  }
  return opaque();
}

// The ints of a tuple, Python's or NumPy's. nullopt if any element is something else.
std::optional<Attr::Ints> plain_ints(nb::handle items) {
  const Py_ssize_t n = fast_size(items.ptr());
  Attr::Ints list(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = fast_item(items.ptr(), i);
    if (!PyLong_CheckExact(item)) {
      if (!is_exactly(item, JaxClasses::get().np_int64)) return std::nullopt;
      list[static_cast<size_t>(i)] = to_int(item);
      continue;
    }
    int overflow = 0;
    list[static_cast<size_t>(i)] = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0) return std::nullopt;
  }
  return list;
}

// The plainest list that holds all elements: integers, dims, numbers, strings, else a list of anything.
Attr JaxValues::sequence(nb::handle value, std::string_view path, std::vector<NestedJaxpr>& nested, int depth) {
  nb::object items = checked(PySequence_Fast(value.ptr(), "a list was expected"));
  Py_ssize_t n = fast_size(items.ptr());
  if (std::optional<Attr::Ints> plain = plain_ints(items)) return Attr(std::move(*plain));
  AttrList all;
  all.reserve(static_cast<size_t>(n));
  bool ints = true, dims = true, floats = n > 0, texts = n > 0, only_jaxprs = n > 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    nb::handle item = fast_item(items.ptr(), i);
    only_jaxprs = only_jaxprs && kind(item) == Kind::kJaxpr;
    Attr a = attr(item, path, nested, depth + 1);
    bool is_int = a.get<int64_t>() || a.get<bool>();
    ints = ints && is_int;
    dims = dims && (a.get<int64_t>() || a.get<Dim>());
    floats = floats && a.get<double>();
    texts = texts && a.get<std::string>();
    all.push_back(std::move(a));
  }
  if (only_jaxprs) return {};  // they became bodies of one name
  if (ints) {
    Attr::Ints list;
    for (const Attr& a : all) list.push_back(a.get<bool>() ? *a.get<bool>() : *a.get<int64_t>());
    return Attr(std::move(list));
  }
  if (dims) {
    Attr::DimList list;
    for (const Attr& a : all) list.push_back(a.get<Dim>() ? *a.get<Dim>() : Dim::of(*a.get<int64_t>()));
    return Attr(std::move(list));
  }
  if (floats) {
    Attr::Floats list;
    for (const Attr& a : all) list.push_back(*a.get<double>());
    return Attr(std::move(list));
  }
  if (texts) {
    Attr::Strings list;
    for (const Attr& a : all) list.push_back(*a.get<std::string>());
    return Attr(std::move(list));
  }
  return Attr(std::move(all));
}

namespace {

// From JAX 0.12 on a scan has a tree that splits its operands into constants, state and slices, and no
// counts.
void operands_of_scan(nb::handle tree, AttrInit& out) {
  nb::object parts = tree.attr("unpack")();
  size_t at = 0;
  for (std::string_view name : {"num_consts", "num_carry"}) {
    out.push_back(sardonyx::attr(name, Attr(static_cast<int64_t>(nb::len(nb::object(parts[at++]))))));
  }
}

}  // namespace

AttrInit JaxValues::params(nb::handle dict, std::vector<NestedJaxpr>& nested) {
  AttrInit out;
  out.reserve(4);  // few have more
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t pos = 0;
  while (PyDict_Next(dict.ptr(), &pos, &key, &value)) {
    if (value == Py_None) continue;
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(key, &size);
    if (bytes == nullptr) raise_python();
    std::string_view name(bytes, static_cast<size_t>(size));
    if (std::ranges::binary_search(kIgnored, name)) continue;
    if (name == "ft_in") {
      operands_of_scan(value, out);
      continue;
    }
    Attr a = attr(value, name, nested, 0);
    if (!a.is_none()) out.push_back(sardonyx::attr(name, std::move(a)));
  }
  return out;
}

}  // namespace sardonyx::python
