#include "native/jax/source_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "native/jax/values.h"
#include "native/python_api.h"

namespace sardonyx::python {
namespace {

std::string folder_of(std::string path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(0, slash + 1);
}

std::string base_name(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// Folders of installed code, found once per process.
struct Folders {
  std::string jax = folder_of(text_of(nb::module_::import_("jax").attr("__file__")));
  std::string ours = folder_of(text_of(nb::module_::import_("sardonyx").attr("__file__")));
  std::string stdlib = folder_of(text_of(nb::module_::import_("os").attr("__file__")));

  static const Folders& get() {
    static const Folders folders;
    return folders;
  }
};

// The classes that name stacks are made of. Null in versions of JAX with other classes.
struct StackClasses {
  PyTypeObject *scope = nullptr, *transform = nullptr;

  StackClasses() {
    nb::object module = nb::module_::import_("jax._src.source_info_util");
    nb::object scope_class = find_attr<"Scope">(module), transform_class = find_attr<"Transform">(module);
    scope = reinterpret_cast<PyTypeObject*>(scope_class.release().ptr());  // never released
    transform = reinterpret_cast<PyTypeObject*>(transform_class.release().ptr());
  }
  static const StackClasses& get() {
    static const StackClasses classes;
    return classes;
  }
};

// Equals str() of a name stack, which JAX computes in Python: names of scopes from the outermost, each inside
// the transformations before it.
std::string stack_text(nb::handle name_stack) {
  nb::object parts = find_attr<"stack">(name_stack);
  if (!parts.is_valid() || !PyTuple_CheckExact(parts.ptr())) return text_of(name_stack);
  const StackClasses& classes = StackClasses::get();
  std::string out, open;  // open: transformations whose scope has not come yet
  size_t to_close = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(parts.ptr()); ++i) {
    PyObject* part = PyTuple_GetItem(parts.ptr(), i);
    const bool is_transform = Py_TYPE(part) == classes.transform;
    if ((!is_transform && Py_TYPE(part) != classes.scope) || !PyTuple_Check(part) || PyTuple_Size(part) != 1)
      return text_of(name_stack);
    const std::string name = text_of(PyTuple_GetItem(part, 0));
    if (is_transform) {
      open += name + "(";
      ++to_close;
      continue;
    }
    if (!out.empty()) out += '/';
    out += open + name + std::string(to_close, ')');
    open.clear();
    to_close = 0;
  }
  if (to_close == 0) return out;
  if (!out.empty()) out += '/';
  return out + open + std::string(to_close, ')');
}

}  // namespace

SourceLines::SourceLines(Model& model, SourceDetail level) : model_(model), level_(level) {
  scopes_.emplace_back();
  scope_ids_.emplace("", 0);
  places_.emplace_back();
}

void SourceLines::prepare() {
  Folders::get();
  StackClasses::get();
}

SourceLines::FrameKind SourceLines::frame_kind(PyObject* code) {
  // Functions of one file share the string of its name.
  const nb::object name = get_attr<"co_filename">(code);
  auto [at, fresh] = files_.try_emplace(name.ptr(), FrameKind::kUser);
  if (!fresh) return at->second;
  const Folders& folders = Folders::get();
  std::string file = text_of(name);
  bool installed = file.find("/site-packages/") != std::string::npos || file.find("/dist-packages/") != std::string::npos;
  if (file.starts_with(folders.ours)) return at->second = FrameKind::kOurs;
  if (file.starts_with(folders.jax) || file.starts_with('<')) return at->second = FrameKind::kInside;
  if (installed) return at->second = FrameKind::kLibrary;
  if (file.starts_with(folders.stdlib)) return at->second = FrameKind::kInside;
  return at->second;
}

std::string SourceLines::frame_text(PyObject* code, int line, bool path) const {
  std::string file = text_of(get_attr<"co_filename">(code));
  return fmt::format("{}:{} ({})", path ? file : base_name(file), line, text_of(get_attr<"co_qualname">(code)));
}

uint32_t SourceLines::place_of(nb::handle traceback) {
  if (traceback.is_none()) return 0;
  PyObject* known = PyDict_GetItemWithError(places_by_traceback_.ptr(), traceback.ptr());
  if (known != nullptr) return static_cast<uint32_t>(PyLong_AsUnsignedLong(known));
  if (PyErr_Occurred()) throw nb::python_error();

  nb::object raw = nb::steal(PyObject_CallMethodObjArgs(traceback.ptr(), interned<"raw_frames">(), nullptr));
  if (!raw.is_valid()) throw nb::python_error();
  nb::object codes = nb::cast<nb::list>(raw[0]), last_instructions = nb::cast<nb::list>(raw[1]);
  const Py_ssize_t n = std::min(PyList_Size(codes.ptr()), PyList_Size(last_instructions.ptr()));
  const auto line_of = [&](Py_ssize_t i) {
    return python::line_of(PyList_GetItem(codes.ptr(), i),
                           nb::cast<int>(nb::handle(PyList_GetItem(last_instructions.ptr(), i))));
  };
  Py_ssize_t chosen_at = -1;
  FrameKind chosen_kind = FrameKind::kInside;
  std::string stack;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* code = PyList_GetItem(codes.ptr(), i);
    FrameKind kind = frame_kind(code);
    if (kind == FrameKind::kOurs) break;
    if (level_ == SourceDetail::kFull) {
      stack += stack.empty() ? "" : "\n";
      stack += kind == FrameKind::kInside ? "\t" : "";
      stack += frame_text(code, line_of(i), true);
    }
    if (kind == FrameKind::kInside) continue;
    bool better = chosen_at < 0 || (kind == FrameKind::kUser && chosen_kind != FrameKind::kUser);
    if (better) chosen_at = i, chosen_kind = kind;
    if (kind == FrameKind::kUser && level_ != SourceDetail::kFull) break;
  }
  uint32_t index = 0;
  if (chosen_at >= 0) {
    PyObject* chosen = PyList_GetItem(codes.ptr(), chosen_at);
    std::string file = text_of(get_attr<"co_filename">(chosen));
    index = static_cast<uint32_t>(places_.size());
    places_.push_back({.file = level_ == SourceDetail::kFull ? file : base_name(file),
                       .function = text_of(get_attr<"co_qualname">(chosen)),
                       .stack = std::move(stack),
                       .line = line_of(chosen_at)});
  }
  places_by_traceback_[traceback] = nb::int_(index);
  return index;
}

uint32_t SourceLines::scope(uint32_t outer, nb::handle source_info) {
  if (level_ == SourceDetail::kOff) return 0;
  nb::object object = get_attr<"name_stack">(source_info);
  auto [at, fresh] = stacks_.try_emplace(object.ptr());
  NameStack& stack = at->second;
  if (fresh) {
    stack = {object, stack_text(object), static_cast<uint32_t>(stacks_.size())};
  }
  if (stack.text.empty()) return outer;
  auto [known, added] = scope_cache_.try_emplace((static_cast<uint64_t>(outer) << 32) | stack.index, 0);
  if (!added) return known->second;
  auto [id, unseen] = scope_ids_.try_emplace(outer == 0 ? stack.text : scopes_[outer] + "/" + stack.text,
                                             static_cast<uint32_t>(scopes_.size()));
  if (unseen) scopes_.push_back(id->first);
  return known->second = id->second;
}

uint32_t SourceLines::place(uint32_t outer, nb::handle source_info) {
  if (level_ == SourceDetail::kOff) return 0;
  const uint32_t own = place_of(get_attr<"traceback">(source_info));
  return own != 0 ? own : outer;
}

uint32_t SourceLines::provenance(uint32_t where, uint32_t scope, const Op& op) {
  if (level_ == SourceDetail::kOff) return 0;
  // At most two million places and scopes and a few hundred ops: all three fit into one key.
  SX_CHECK(where < (1u << 22) && scope < (1u << 22) && op.id < (1u << 20), "too many source lines");
  uint64_t key = (static_cast<uint64_t>(where) << 42) | (static_cast<uint64_t>(scope) << 20) | op.id;
  auto [at, fresh] = known_.try_emplace(key, 0);
  if (!fresh) return at->second;
  const Place& p = places_[where];
  Source source{.file = p.file,
                .line = p.line,
                .function = p.function,
                .scope = scopes_[scope],
                .primitive = std::string(op.name),
                .lowering = {},
                .stack = p.stack};
  return at->second = model_.add_provenance({.sources = {std::move(source)}, .source_count = 1, .rules = {}});
}

}  // namespace sardonyx::python
