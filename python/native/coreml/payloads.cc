#include "native/coreml/payloads.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <functional>

#include "dialects/mil/sample.h"
#include "ir/tensor/tensor_view.h"

namespace sardonyx::python {
namespace {

static std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (format == nullptr || format[0] == 0 || format[1] != 0) return std::nullopt;
  switch (format[0]) {
    case '?': return DType::kBool;
    case 'e': return DType::kF16;
    case 'f': return DType::kF32;
    case 'd': return DType::kF64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return size == 1 ? DType::kI8 : size == 2 ? DType::kI16 : size == 4 ? DType::kI32 : DType::kI64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return size == 1 ? DType::kU8 : size == 2 ? DType::kU16 : size == 4 ? DType::kU32 : DType::kU64;
    default: return std::nullopt;
  }
}

// A transposed array as a view of the same buffer in memory order. Null if no order of the axes gives one.
TensorPtr view_of_buffer(const std::shared_ptr<Py_buffer>& array, DType dtype, const std::vector<int64_t>& shape) {
  if (array->suboffsets != nullptr) return nullptr;
  std::vector<size_t> axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) axes.push_back(d);
  }
  std::ranges::stable_sort(axes, std::greater(), [&](size_t d) { return array->strides[d]; });
  std::vector<int64_t> strides(shape.size(), 1), sizes(axes.size());
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (array->strides[axes[i]] != step * array->itemsize) return nullptr;
    strides[axes[i]] = step;
    sizes[i] = shape[axes[i]];
    step *= sizes[i];
  }
  const std::span bytes(static_cast<const std::byte*>(array->buf), static_cast<size_t>(array->len));
  return make_view(Tensor::borrow(dtype, std::move(sizes), bytes, array), shape, std::move(strides));
}

}  // namespace

PayloadReader::Payload PayloadReader::read(nb::handle var, const nb::object& sym_val, const Type* declared) {
  if (sym_val.is_none()) return {};
  const nb::object value = get(sym_val, names().val);
  PyObject* p = value.ptr();
  if (PyUnicode_CheckExact(p)) {
    const std::string_view s = utf8_of(value);
    const auto known = texts_.find(s);
    if (known != texts_.end()) return {known->second};
    return {texts_.emplace(std::string(s), Tensor::strings({}, {std::string(s)})).first->second};
  }
  const DType wanted = declared != nullptr && declared->is_tensor() ? declared->dtype() : DType::kUndefined;
  if (PyBool_Check(p) || PyFloat_CheckExact(p) || PyLong_CheckExact(p)) {
    if (wanted == DType::kBool || wanted == DType::kI32 || wanted == DType::kF32 || wanted == DType::kF16)
      return {
          Tensor::full(wanted, {}, PyFloat_CheckExact(p) ? PyFloat_AsDouble(p) : static_cast<double>(PyLong_AsLongLong(p)))};
  } else if (wanted != DType::kUndefined && bit_width(wanted) >= 8 && PyObject_CheckBuffer(p)) {
    Py_buffer view;
    if (PyObject_GetBuffer(p, &view, PyBUF_FULL_RO) == 0) {
      const auto found = dtype_of_format(view.format, view.itemsize);
      if (found) return of_buffer(view, *found, value);
      PyBuffer_Release(&view);
    } else {
      PyErr_Clear();
    }
  }
  const auto [array, dtype] = nb::cast<std::pair<nb::object, int>>(describe_(var));
  if (array.is_none()) return {};
  if (dtype < 0) return {.contents = nb::cast<int64_t>(array)};
  if (static_cast<DType>(dtype) == DType::kString) return {Tensor::strings({}, {nb::cast<std::string>(array)})};
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_FULL_RO) != 0) throw nb::python_error();
  return of_buffer(view, static_cast<DType>(dtype), array);
}

PayloadReader::Payload PayloadReader::of_buffer(Py_buffer& view, DType dtype, const nb::object& array) {
  std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
  const auto* bytes = static_cast<const std::byte*>(view.buf);
  const auto size = static_cast<size_t>(view.len);
  const bool dense = PyBuffer_IsContiguous(&view, 'C') != 0;
  if (size <= 256) {
    std::vector<std::byte> copy(size);
    if (dense) {
      std::copy_n(bytes, size, copy.data());
    } else if (PyBuffer_ToContiguous(copy.data(), &view, view.len, 'C') != 0) {
      throw nb::python_error();
    }
    PyBuffer_Release(&view);
    return {Tensor::own(dtype, std::move(shape), std::move(copy))};
  }
  std::shared_ptr<Py_buffer> kept(new Py_buffer(view), [](Py_buffer* b) {
    if (Py_IsInitialized()) {
      const PyGILState_STATE state = PyGILState_Ensure();
      PyBuffer_Release(b);
      PyGILState_Release(state);
    }
    delete b;
  });
  if (dense) {
    arrays[bytes] = {array, dtype, size};
    return {Tensor::borrow(dtype, std::move(shape), {bytes, size}, std::move(kept))};
  }
  if (TensorPtr t = view_of_buffer(kept, dtype, shape)) {
    arrays.try_emplace(bytes, BorrowedArray{array, dtype, size});
    return {t};
  }
  // Some other order, such as a reversed array. Code that uses the elements puts them in order.
  const int64_t sample = mil::sample(view.len / view.itemsize, static_cast<size_t>(view.itemsize), [&](int64_t i) {
    std::vector<Py_ssize_t> place(shape.size());
    for (size_t d = shape.size(); d-- > 0; i /= shape[d]) place[d] = i % shape[d];
    return static_cast<const std::byte*>(PyBuffer_GetPointer(&view, place.data()));
  });
  TensorPtr deferred = Tensor::defer(dtype, std::move(shape), [kept, size] {
    std::vector<std::byte> copy(size);
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool done = PyBuffer_ToContiguous(copy.data(), kept.get(), kept->len, 'C') == 0;
    if (!done) PyErr_Clear();
    PyGILState_Release(state);
    if (!done) throw Error(ErrorCode::kInternal, "an array could not be read");
    return copy;
  });
  return {.tensor = std::move(deferred), .sample = sample};
}

}  // namespace sardonyx::python
