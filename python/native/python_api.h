// The parts of Python's C API that differ between the full API and the stable ABI of Python 3.12
// (Py_LIMITED_API), which one wheel uses for all later versions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <string>

namespace sardonyx::python {

namespace nb = nanobind;

// The name of a class without its module.
inline std::string bare_name(PyTypeObject* type) {
#ifdef Py_LIMITED_API
  nb::object name = nb::steal(PyType_GetName(type));
  if (!name.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(name);
#else
  const char* dot = std::strrchr(type->tp_name, '.');
  return dot == nullptr ? type->tp_name : dot + 1;
#endif
}

// Whether a class that was defined in Python has that name.
inline bool is_named(PyTypeObject* type, const char* name) {
#ifdef Py_LIMITED_API
  nb::object found = nb::steal(PyType_GetName(type));
  if (!found.is_valid()) throw nb::python_error();
  return PyUnicode_CompareWithASCIIString(found.ptr(), name) == 0;
#else
  return std::strcmp(type->tp_name, name) == 0;
#endif
}

// Sets *found to a new reference, or to null if there is no such attribute. Returns a negative number after
// another exception.
inline int optional_attr(PyObject* object, PyObject* name, PyObject** found) {
#ifdef Py_LIMITED_API
  *found = PyObject_GetAttr(object, name);
  if (*found != nullptr) return 1;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
  PyErr_Clear();
  return 0;
#elif PY_VERSION_HEX >= 0x030D0000
  return PyObject_GetOptionalAttr(object, name, found);
#else
  return _PyObject_LookupAttr(object, name, found);
#endif
}

// Of what PySequence_Fast() returned, a list or a tuple. Items are borrowed.
inline Py_ssize_t fast_size(PyObject* items) { return PyList_Check(items) ? PyList_Size(items) : PyTuple_Size(items); }
inline PyObject* fast_item(PyObject* items, Py_ssize_t i) {
  return PyList_Check(items) ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);
}

namespace detail {
inline bool is_of(PyObject* object, PyObject* type) { return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(type); }
inline PyObject* type_in(const char* module, const char* name) {
  return nb::module_::import_(module).attr(name).inc_ref().ptr();  // never released
}
}  // namespace detail

inline bool is_function(PyObject* object) {
  static PyObject* const type = detail::type_in("types", "FunctionType");
  return detail::is_of(object, type);
}
inline bool is_method(PyObject* object) {
  static PyObject* const type = detail::type_in("types", "MethodType");
  return detail::is_of(object, type);
}
inline bool is_weak_reference(PyObject* object) {
  static PyObject* const type = detail::type_in("weakref", "ref");
  return detail::is_of(object, type);
}

inline bool is_alive(PyObject* weak_reference) {
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  const int answer = PyWeakref_GetRef(weak_reference, &object);
  Py_XDECREF(object);
  return answer == 1;
#else
  return PyWeakref_GetObject(weak_reference) != Py_None;
#endif
}

// What a cell of a closure holds; null if it is not filled yet.
inline nb::object cell_content(PyObject* cell) {
#ifdef Py_LIMITED_API
  PyObject* content = PyObject_GetAttrString(cell, "cell_contents");
  if (content == nullptr && !PyErr_ExceptionMatches(PyExc_ValueError)) throw nb::python_error();
  if (content == nullptr) PyErr_Clear();
  return nb::steal(content);
#else
  return nb::borrow(PyCell_GET(cell));
#endif
}

// The line of the instruction at that byte of a code object.
inline int line_of(PyObject* code, int instruction) {
#ifdef Py_LIMITED_API
  int line = nb::cast<int>(nb::handle(code).attr("co_firstlineno"));
  for (nb::handle range : nb::handle(code).attr("co_lines")()) {  // (begin, end, line or None)
    if (instruction >= nb::cast<int>(range[1])) continue;
    if (!range[2].is_none()) line = nb::cast<int>(range[2]);
    break;
  }
  return line;
#else
  return PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), instruction);
#endif
}

}  // namespace sardonyx::python
