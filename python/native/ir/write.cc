// Writes ONNX for Python's ir.
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include "native/ir/edit.h"
#include "sardonyx/io.h"

namespace sardonyx::python {

namespace {

WriteOptions options(bool external, const std::string& data_file, uint64_t threshold, uint64_t shard_bytes) {
  WriteOptions o;
  o.external = external ? WriteOptions::External::kAlways : WriteOptions::External::kAuto;
  o.data_file = data_file;
  o.external_threshold = threshold;
  o.max_data_file_bytes = shard_bytes;
  return o;
}

}  // namespace

void bind_ir_write(nb::module_& m) {
  m.def("write_path", [](PyModel& self, const std::string& path, bool external, const std::string& data_file,
                         uint64_t threshold, uint64_t shard_bytes) {
    check_complete(*self.store);
    write_onnx(*self.ptr, path, options(external, data_file, threshold, shard_bytes));
  });
  m.def("serialize", [](PyModel& self) {
    check_complete(*self.store);
    std::string bytes = serialize_onnx(*self.ptr);
    return nb::bytes(bytes.data(), bytes.size());
  });
}

}  // namespace sardonyx::python
