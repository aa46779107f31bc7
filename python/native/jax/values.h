// Converts JAX's Python values to native ones: dtypes, abstract values, symbolic dims, arrays, equation
// parameters.
//
// Everything here needs the interpreter lock. Results are cached per Python object. The cache keeps each
// object alive, so an address is never mistaken for that of another object.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::python {

namespace nb = nanobind;

// The JAX and NumPy classes that conversions distinguish. Looked up once per process, when first needed.
struct JaxClasses {
  nb::object closed_jaxpr, jaxpr, literal, shaped_array, jax_array, key_array, key_type;
  nb::object enum_class, np_dtype, np_generic, np_int64, np_ndarray, np_asarray, np_ascontiguousarray;
  static const JaxClasses& get();
};

// A string as a template argument.
template <size_t n>
struct Literal {
  char text[n]{};
  consteval Literal(const char (&t)[n]) { std::copy_n(t, n, text); }
};

// The interned Python string, made once per process.
template <Literal name>
PyObject* interned() {
  static PyObject* const text = PyUnicode_InternFromString(name.text);
  return text;
}

// Returns `object.name`. Throws the Python error.
nb::object get_attr(nb::handle object, PyObject* name);
// As get_attr(), but null where there is no such attribute.
nb::object find_attr(nb::handle object, PyObject* name);

template <Literal name>
nb::object get_attr(nb::handle object) {
  return get_attr(object, interned<name>());
}
template <Literal name>
nb::object find_attr(nb::handle object) {
  return find_attr(object, interned<name>());
}
template <Literal name>
bool has_attr(nb::handle object) {
  return PyObject_HasAttr(object.ptr(), interned<name>()) == 1;
}
// str(object) as UTF-8.
std::string text_of(nb::handle object);
// The class name without its module: "ShapedArray".
std::string class_name(nb::handle object);

// Keeps a Python object alive from native code. It is released with the interpreter lock held, on whatever
// thread.
std::shared_ptr<const void> keep_python(nb::object object);

// A nested jaxpr among the parameters of an equation.
struct NestedJaxpr {
  std::string name;
  nb::object jaxpr;
};

class JaxValues {
 public:
  explicit JaxValues(Model& model) : model_(model) {}

  DType dtype(nb::handle dtype);
  const Type* type(nb::handle aval);
  Dim dim(nb::handle size);

  // A tensor over the buffer that a NumPy or JAX array exports. Null if it exports none, or one of another
  // dtype.
  static TensorPtr lent(nb::handle array, DType type);
  // A tensor over the array's own buffer, copied only when it is not dense or holds sub-byte elements. Not
  // for key arrays.
  TensorPtr tensor(nb::handle array);
  // Appends the bytes of a rank-0 NumPy array or a number in the dtype of `aval`, as most Literals are.
  // Returns false if `value` is neither, or does not fit.
  bool append_scalar(nb::handle value, nb::handle aval, std::string& bytes);
  // The value of a Literal, in the dtype of its aval.
  TensorPtr literal(nb::handle value, nb::handle aval);
  bool is_key_array(nb::handle value);
  // Whether an equation draws random numbers with a generator other than JAX's default, the only one with
  // lowerings. Keys of other kinds can only be wrapped, moved and unwrapped.
  static bool has_other_generator(nb::handle eqn);

  // The parameters of an equation. Jaxprs among them go to `nested`. None, and parameters for compilers only,
  // are left out.
  AttrInit params(nb::handle dict, std::vector<NestedJaxpr>& nested);

 private:
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kEnum,
    kSequence,
    kNamedTuple,
    kDict,
    kDataclass,
    kDType,
    kKeyType,
    kNumpyScalar,
    kArray,
    kKeyArray,
    kDim,
    kJaxpr,
    kScalarClass,
    kOpaque
  };
  Kind kind(nb::handle value);
  Attr attr(nb::handle value, std::string_view path, std::vector<NestedJaxpr>& nested, int depth);
  Attr sequence(nb::handle value, std::string_view path, std::vector<NestedJaxpr>& nested, int depth);

  template <class T>
  using Remembered = std::unordered_map<PyObject*, std::pair<nb::object, T>>;

  Model& model_;
  Remembered<DType> dtypes_;
  Remembered<const Type*> types_;
  Remembered<Dim> dims_;
  Remembered<Kind> kinds_;  // by class
};

}  // namespace sardonyx::python
