// Reads values of coremltools' variables as tensors that share the arrays' memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "native/coreml/objects.h"

namespace sardonyx::python {

// An array whose memory a tensor borrows.
struct BorrowedArray {
  nb::object array;
  DType dtype = DType::kUndefined;
  size_t size = 0;  // bytes
};

class PayloadReader {
 public:
  // `describe(variable)` returns what Python has to examine: see ProgramSession._payload() in
  // _coreml_program.py.
  explicit PayloadReader(nb::object describe) : describe_(std::move(describe)) {}

  struct Payload {
    TensorPtr tensor;                 // null if no value can be read
    std::optional<int64_t> sample;    // of a tensor whose elements are not in order; see dialects/mil/sample.h
    std::optional<int64_t> contents;  // equal for equal elements; set when only Python can read them and there is no tensor
  };
  // `sym_val` is the variable's value as coremltools holds it, or None. `declared` is its type, or null.
  Payload read(nb::handle var, const nb::object& sym_val, const Type* declared);

  // Large arrays, by their first element.
  std::unordered_map<const std::byte*, BorrowedArray> arrays;

 private:
  Payload of_buffer(Py_buffer& view, DType dtype, const nb::object& array);

  nb::object describe_;
  std::map<std::string, TensorPtr, std::less<>> texts_;
};

}  // namespace sardonyx::python
