// ir.Tensor: a payload, converted from and to NumPy arrays without copying.
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include "io/onnx/fields_onnx.h"
#include "io/onnx/onnx_parts.h"
#include "native/ir/store.h"

namespace sardonyx::python {

namespace {

using namespace onnx_file;

// A buffer of another object. It is released with the interpreter lock held, on whatever thread.
struct Buffer {
  Py_buffer view{};
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (view.obj == nullptr || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(&view);
    PyGILState_Release(state);
  }
};

// Exposes a tensor's bytes as a Python buffer that keeps the tensor alive. memoryview and NumPy read it.
class TensorBytes {
 public:
  explicit TensorBytes(TensorPtr t) : tensor_(std::move(t)) {
    if (tensor_->is_splat() || tensor_->is_deferred()) {
      bytes_ = tensor_->bytes(scratch_);
    } else {
      bytes_ = tensor_->stored_bytes();
    }
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  TensorPtr tensor_;
  std::vector<std::byte> scratch_;
  std::span<const std::byte> bytes_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto* b = nb::inst_ptr<TensorBytes>(nb::handle(self));
  static std::byte nothing;
  auto* first = b->bytes().empty() ? &nothing : b->bytes().data();
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(first), static_cast<Py_ssize_t>(b->bytes().size()), 1, flags);
}

PyType_Slot kBufferSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

TensorPtr from_buffer(nb::handle source, int dtype, std::vector<int64_t> shape) {
  auto buffer = std::make_shared<Buffer>();
  if (PyObject_GetBuffer(source.ptr(), &buffer->view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer->view.buf), static_cast<size_t>(buffer->view.len));
  return Tensor::borrow(static_cast<DType>(dtype), std::move(shape), bytes, buffer);
}

TensorPtr from_strings(const std::vector<nb::bytes>& values, std::vector<int64_t> shape) {
  std::vector<std::string> strings;
  strings.reserve(values.size());
  for (const nb::bytes& b : values) strings.emplace_back(b.c_str(), b.size());
  return Tensor::strings(std::move(shape), std::move(strings));
}

}  // namespace

std::string tensor_fields(const PyTensor& t) {
  std::string out;
  if (t.name && !t.name->empty()) out += bytes_field(TensorProto::kName, *t.name);
  if (t.doc && !t.doc->empty()) out += bytes_field(TensorProto::kDocString, *t.doc);
  for (const auto& [key, value] : t.metadata) {
    out += bytes_field(TensorProto::kMetadataProps,
                       bytes_field(StringStringEntryProto::kKey, key) + bytes_field(StringStringEntryProto::kValue, value));
  }
  return out + t.unknown;
}

nb::object wrap_tensor_with(TensorPtr t, std::string_view fields) {
  nb::object made = wrap_tensor(std::move(t));
  if (fields.empty()) return made;
  PyTensor& h = *nb::inst_ptr<PyTensor>(made);
  for (wire::Reader r(fields, fields.data()); r.next();) {
    const char* start = r.start();
    switch (r.field()) {
      case TensorProto::kName: h.name = std::string(r.bytes()); break;
      case TensorProto::kDocString: h.doc = std::string(r.bytes()); break;
      case TensorProto::kMetadataProps: {
        const std::string_view entry = r.bytes();
        read_metadata(entry, {start, static_cast<size_t>(r.at() - start)}, fields.data(), h.metadata, h.unknown);
        break;
      }
      default: h.unknown += r.skip();
    }
  }
  return made;
}

void bind_ir_tensor(nb::module_& m) {
  nb::class_<TensorBytes> bytes(m, "TensorBytes", nb::type_slots(kBufferSlots));
  nb::class_<PyTensor>(m, "TensorBase", "A constant's payload.")
      .def("_init_buffer", [](PyTensor& self, nb::handle source, int dtype,
                              std::vector<int64_t> shape) { self.tensor = from_buffer(source, dtype, std::move(shape)); })
      .def("_init_strings", [](PyTensor& self, const std::vector<nb::bytes>& values,
                               std::vector<int64_t> shape) { self.tensor = from_strings(values, std::move(shape)); })
      .def("_init_same",
           [](PyTensor& self, const PyTensor& other) {
             self.tensor = other.tensor;
             self.unknown = other.unknown;
           })
      .def("__init__", [](PyTensor* self) { new (self) PyTensor; })
      .def_prop_ro("_dtype", [](const PyTensor& self) { return static_cast<int>(self.tensor->dtype()); })
      .def_prop_ro(
          "_dims",
          [](const PyTensor& self) { return std::vector<int64_t>(self.tensor->shape().begin(), self.tensor->shape().end()); })
      .def_prop_ro(
          "size", [](const PyTensor& self) { return self.tensor->size(); }, "The number of elements.")
      .def_prop_ro(
          "nbytes", [](const PyTensor& self) { return self.tensor->byte_size(); }, "The number of bytes.")
      .def_prop_ro("_is_splat", [](const PyTensor& self) { return self.tensor->is_splat(); })
      .def("_element",
           [](const PyTensor& self) {
             auto b = self.tensor->stored_bytes();
             return nb::bytes(reinterpret_cast<const char*>(b.data()), b.size());
           })
      .def(
          "_bytes", [](const PyTensor& self) { return new TensorBytes(self.tensor); }, nb::rv_policy::take_ownership)
      .def("_strings",
           [](const PyTensor& self) {
             nb::list out;
             for (const std::string& s : self.tensor->string_values()) out.append(nb::bytes(s.data(), s.size()));
             return out;
           })
      .def("_equals", [](const PyTensor& self, const PyTensor& other) { return self.tensor->equals(*other.tensor); })
      .def_prop_rw(
          "name", [](const PyTensor& self) { return self.name; },
          [](PyTensor& self, std::optional<std::string> name) { self.name = std::move(name); },
          nb::for_setter(nb::arg("name").none()), "The tensor's name, or None.")
      .def_prop_rw(
          "doc_string", [](const PyTensor& self) { return self.doc; },
          [](PyTensor& self, std::optional<std::string> doc) { self.doc = std::move(doc); },
          nb::for_setter(nb::arg("doc").none()))
      .def("_metadata", [](const PyTensor& self) { return metadata_to_python(self.metadata); })
      .def("_set_metadata", [](PyTensor& self, nb::handle pairs) { self.metadata = metadata_from_python(pairs); });
}

}  // namespace sardonyx::python
