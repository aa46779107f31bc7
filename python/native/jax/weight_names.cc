#include "native/jax/weight_names.h"

#include <memory>
#include <unordered_map>

#include "native/jax/values.h"
#include "native/python_api.h"

namespace sardonyx::python {
namespace {

constexpr size_t kMostObjects = 1'000'000;
constexpr size_t kMostTypes = 4096;  // at most this many types are remembered

// The step from a wrapper to the object it wraps.
PyObject* here() { return interned<"">(); }

bool is_partial(PyObject* value) {
  static PyObject* const cls = nb::module_::import_("functools").attr("partial").inc_ref().ptr();
  return PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(cls));
}

bool is_true(nb::handle object) {
  const int answer = PyObject_IsTrue(object.ptr());
  if (answer < 0) throw nb::python_error();
  return answer == 1;
}

bool is_private(PyObject* name) {
  return PyUnicode_GetLength(name) >= 2 && PyUnicode_ReadChar(name, 0) == '_' && PyUnicode_ReadChar(name, 1) == '_';
}

// Whether objects of this type hold no weights.
bool is_leaf(PyObject* value) {
  const PyTypeObject* t = Py_TYPE(value);
  return value == Py_None || t == &PyUnicode_Type || t == &PyLong_Type || t == &PyBool_Type || t == &PyFloat_Type ||
         t == &PyType_Type || t == &PyModule_Type || t == &PyBytes_Type || t == &PyComplex_Type || t == &PySlice_Type ||
         t == &PyRange_Type || is_weak_reference(value);
}

// A hash table from addresses of objects to marks.
class Marks {
 public:
  enum Mark : uint8_t { kNew, kWanted, kSeen };

  // Inserts the object with kNew if it is not there.
  Mark& operator[](PyObject* object) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = place(object);
    if (slot.object == nullptr) slot.object = object, ++used_;
    return slot.mark;
  }

 private:
  struct Slot {
    PyObject* object = nullptr;
    Mark mark = kNew;
  };

  Slot& place(PyObject* object) {
    const size_t mask = slots_.size() - 1;
    size_t i = ((reinterpret_cast<uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (slots_[i].object != nullptr && slots_[i].object != object) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.object != nullptr) place(slot.object) = slot;
    }
  }

  std::vector<Slot> slots_{256};
  size_t used_ = 0;
};

class Search {
 public:
  void want(nb::handle array) {
    Marks::Mark& mark = marks_[array.ptr()];
    missing_ += mark == Marks::kNew ? 1 : 0;
    mark = Marks::kWanted;
  }

  void run(nb::handle root) {
    if (missing_ == 0) return;
    marks_[root.ptr()] = Marks::kSeen;
    places_.push_back({nb::borrow(root), {}, 0, 0});
    for (size_t i = 0; i < places_.size() && i < kMostObjects && missing_ > 0; ++i) {
      at_ = i;
      children(places_[i].value);
    }
  }

  // By address of the const.
  std::unordered_map<PyObject*, std::string> found;

 private:
  // How to find the children of objects of one type.
  enum class Kind : uint8_t { kNothing, kFunction, kMethod, kPartial, kDict, kSequence, kTuple, kVariable, kObject };
  struct Look {
    Kind kind = Kind::kNothing;
    std::vector<nb::object> names;  // of a tuple's fields, an object's slots, or the attributes that hold a variable's array
  };

  // A visited object and the last step of its path: a name, a dict key, or a position.
  struct Place {
    nb::object value;
    nb::object step;
    Py_ssize_t position = 0;
    size_t parent = 0;
  };

  bool is_new(PyObject* child) { return child != nullptr && !is_leaf(child) && marks_[child] != Marks::kSeen; }

  void add(PyObject* child, PyObject* step, Py_ssize_t position = 0) {
    if (!is_new(child)) return;
    Marks::Mark& mark = marks_[child];
    if (mark == Marks::kWanted) {
      found.emplace(child, path(step, position));
      --missing_;
    } else {
      places_.push_back({nb::borrow(child), nb::borrow(step), position, at_});
    }
    mark = Marks::kSeen;
  }

  std::string path(PyObject* step, Py_ssize_t position) const {
    std::string out = text(step, position);
    for (size_t i = at_; i > 0; i = places_[i].parent) {
      std::string outer = text(places_[i].step.ptr(), places_[i].position);
      if (outer.empty()) continue;
      if (!out.empty()) outer += '.';
      out.insert(0, outer);
    }
    return out;
  }

  static std::string text(PyObject* step, Py_ssize_t position) {
    return step == nullptr ? std::to_string(position) : text_of(step);
  }

  void children(nb::object value) {  // by value: places_ grows
    PyObject* v = value.ptr();
    const std::shared_ptr<const Look> found_look = look(v);
    const Look& l = *found_look;
    switch (l.kind) {
      case Kind::kNothing: return;
      case Kind::kFunction: return of_function(v);
      case Kind::kMethod:
        of_attr(value, interned<"__self__">(), here());
        of_attr(value, interned<"__func__">(), here());
        return;
      case Kind::kPartial: {
        nb::object fn = get_attr<"func">(value), args = get_attr<"args">(value), keywords = get_attr<"keywords">(value);
        add(fn.ptr(), here());
        of_sequence(args);
        of_dict(keywords);
        return;
      }
      case Kind::kDict: return of_dict(value);
      case Kind::kSequence: return of_sequence(value);
      case Kind::kTuple: {
        size_t i = 0;
        for (nb::handle item : value) {
          if (i == l.names.size()) return;
          add(item.ptr(), l.names[i++].ptr());
        }
        return;
      }
      case Kind::kVariable: return of_attr(value, l.names[0].ptr(), here());
      case Kind::kObject: return of_object(value, l);
    }
  }

  void of_attr(nb::handle value, PyObject* name, PyObject* step) { add(find_attr(value, name).ptr(), step); }

  void of_sequence(nb::handle value) {
    if (PyTuple_CheckExact(value.ptr()) || PyList_CheckExact(value.ptr())) {
      for (Py_ssize_t i = 0; i < fast_size(value.ptr()); ++i) add(fast_item(value.ptr(), i), nullptr, i);
      return;
    }
    Py_ssize_t i = 0;
    for (nb::handle item : value) add(item.ptr(), nullptr, i++);
  }

  void of_dict(nb::handle value) {
    PyObject *key = nullptr, *child = nullptr;
    Py_ssize_t at = 0;
    if (PyDict_CheckExact(value.ptr())) {
      while (PyDict_Next(value.ptr(), &at, &key, &child)) add(child, key);
      return;
    }
    nb::object items = nb::steal(PyObject_CallMethodObjArgs(value.ptr(), interned<"items">(), nullptr));
    if (!items.is_valid()) throw nb::python_error();
    for (nb::handle item : items) {
      nb::object name = item[0], held = item[1];
      add(held.ptr(), name.ptr());
    }
  }

  void of_function(PyObject* fn) {
    const nb::object code = get_attr<"__code__">(fn);
    // Cells of a closure are named after the variables.
    if (const nb::object cells = get_attr<"__closure__">(fn); !cells.is_none()) {
      const nb::object names = get_attr<"co_freevars">(code);
      for (Py_ssize_t i = 0; i < PyTuple_Size(cells.ptr()) && i < PyTuple_Size(names.ptr()); ++i) {
        const nb::object content = cell_content(PyTuple_GetItem(cells.ptr(), i));
        if (!is_new(content.ptr())) continue;
        // A module that a function closes over is the exported model itself: its name would be on every
        // weight.
        const bool is_model = has_attr<"__dict__">(content) && !has_attr<"dtype">(content);
        add(content.ptr(), is_model ? here() : PyTuple_GetItem(names.ptr(), i));
      }
    }
    const nb::object globals = get_attr<"__globals__">(fn), names = get_attr<"co_names">(code);
    for (Py_ssize_t i = 0; i < PyTuple_Size(names.ptr()); ++i) {
      PyObject* name = PyTuple_GetItem(names.ptr(), i);
      nb::object content = nb::borrow(PyDict_GetItemWithError(globals.ptr(), name));
      PyObject* c = content.ptr();
      if (c == nullptr || is_leaf(c)) continue;
      if (PyDict_Check(c) || PyList_Check(c) || PyTuple_Check(c) || has_attr<"dtype">(c)) add(c, name);
    }
    nb::object wrapped = find_attr<"__wrapped__">(fn);
    if (wrapped.is_valid() && is_true(wrapped)) add(wrapped.ptr(), here());
  }

  void of_object(nb::handle value, const Look& look) {
    nb::object attributes = find_attr<"__dict__">(value);
    const bool has_dict = attributes.is_valid() && PyDict_Check(attributes.ptr());
    if (!has_dict || PyDict_Contains(attributes.ptr(), interned<"__wrapped__">()) == 1)
      of_attr(value, interned<"__wrapped__">(), here());
    PyObject *key = nullptr, *child = nullptr;
    Py_ssize_t at = 0;
    while (has_dict && PyDict_Next(attributes.ptr(), &at, &key, &child)) {
      // The lists of Flax 0.12.0 are attributes named by numbers.
      if (PyLong_Check(key) || (PyUnicode_Check(key) && !is_private(key))) add(child, key);
    }
    for (const nb::object& slot : look.names) of_attr(value, slot.ptr(), slot.ptr());
  }

  // Cached per type for as long as the type lives: looking up a missing attribute may run Python code.
  static std::shared_ptr<const Look> look(PyObject* value) {
    struct Known {
      nb::object type;  // a weak reference
      std::shared_ptr<const Look> look;
    };
    static auto* all = new std::unordered_map<PyTypeObject*, Known>;
    if (auto at = all->find(Py_TYPE(value)); at != all->end() && is_alive(at->second.type.ptr())) return at->second.look;
    if (all->size() >= kMostTypes) all->clear();
    auto made = std::make_shared<const Look>(look_at(value));  // other threads may run meanwhile
    nb::object type = nb::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value)), nullptr));
    if (!type.is_valid()) throw nb::python_error();
    (*all)[Py_TYPE(value)] = {std::move(type), made};
    return made;
  }

  static Look look_at(PyObject* value) {
    if (is_function(value)) return {Kind::kFunction, {}};
    if (is_method(value)) return {Kind::kMethod, {}};
    if (is_partial(value)) return {Kind::kPartial, {}};
    if (PyDict_Check(value)) return {Kind::kDict, {}};
    if (PyList_Check(value) || PyTuple_Check(value)) {
      if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) return {Kind::kSequence, {}};
      nb::object fields = find_attr<"_fields">(value);
      if (!fields.is_valid() || !is_true(fields)) return {Kind::kSequence, {}};
      return {Kind::kTuple, list(fields)};
    }
    if (PyType_Check(value)) return {};
    // A Flax variable: looks like an array and holds one.
    for (PyObject* name : {interned<"_raw_value">(), interned<"raw_value">()}) {
      if (PyObject_HasAttr(value, name) == 1) return {Kind::kVariable, {nb::borrow(name)}};
    }
    if (has_attr<"dtype">(value) && has_attr<"shape">(value)) return {};
    Look look{Kind::kObject, {}};
    const nb::object classes = get_attr<"__mro__">(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    for (Py_ssize_t i = 0; i < PyTuple_Size(classes.ptr()); ++i) {
      nb::object slots = find_attr<"__slots__">(PyTuple_GetItem(classes.ptr(), i));
      if (!slots.is_valid()) continue;
      for (nb::object& slot : list(slots)) {
        if (PyUnicode_Check(slot.ptr()) && !is_private(slot.ptr())) look.names.push_back(std::move(slot));
      }
    }
    return look;
  }

  static std::vector<nb::object> list(nb::handle items) {
    std::vector<nb::object> out;
    for (nb::handle item : items) out.push_back(nb::borrow(item));
    return out;
  }

  Marks marks_;
  std::vector<Place> places_;
  size_t at_ = 0;  // the place whose children are next
  size_t missing_ = 0;
};

}  // namespace

std::vector<std::string> weight_names(nb::handle root, nb::handle closed_jaxpr) {
  Search search;
  nb::object consts = get_attr<"consts">(closed_jaxpr), vars = get_attr<"constvars">(get_attr<"jaxpr">(closed_jaxpr));
  size_t i = 0;
  for (nb::handle var : vars) {
    nb::object c = consts[i++], shape = find_attr<"shape">(get_attr<"aval">(var));
    // Scalars get no names, but references to them do: they may become inputs.
    if (shape.is_valid() && (is_true(shape) || class_name(c) == "Ref")) search.want(c);
  }
  try {
    search.run(root);
  } catch (const nb::python_error& e) {
    if (!e.matches(PyExc_Exception)) throw;  // an attribute raised: keep what was found so far
  }
  std::vector<std::string> out;
  for (nb::handle c : consts) {
    auto at = search.found.find(c.ptr());
    out.push_back(at != search.found.end() ? at->second : std::string());
  }
  return out;
}

}  // namespace sardonyx::python
