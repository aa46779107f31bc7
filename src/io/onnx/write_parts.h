// Writes parts of ONNX messages.
#pragma once

#include <unordered_map>

#include "io/wire_writer.h"
#include "sardonyx/io.h"

namespace sardonyx::onnx_file {

// The location of a tensor's bytes in an external data file.
struct Place {
  uint32_t file = 0;
  uint64_t offset = 0;
};
struct Places {
  std::vector<std::string> files;  // names as in the model
  std::unordered_map<const Tensor*, Place> of;

  const Place* find(const Tensor& t) const {
    const auto at = of.find(&t);
    return at == of.end() ? nullptr : &at->second;
  }
};

// Whether write_onnx() puts tensors into a separate data file: on request, or because the model would exceed
// protobuf's limit. Throws kLimit if it is necessary but the options forbid it.
bool writes_data_file(const Model& model, const WriteOptions& options);

// Writes the content of a TensorProto and appends `fields`, in wire format. `places` may be null.
void write_tensor(wire::Writer& w, const Tensor& t, std::string_view name, std::string_view fields, const Places* places);
// Writes all bytes of t, copied from its file if it has one; expands splats chunk by chunk.
void write_bytes(wire::Writer& w, const Tensor& t);
// Writes bytes that are also in a file; copies long ranges from there.
void write_range(wire::Writer& w, FileRange file, std::span<const std::byte> bytes);

// Writes the content of a TypeProto.
void write_type(wire::Writer& w, const Type* t, const Dims& dims);
// Writes the content of a ValueInfoProto.
void write_value_info(wire::Writer& w, std::string_view name, const Type* t, const std::string& doc, const Metadata& metadata,
                      const Dims& dims);
// Writes the content of an AttributeProto. `op` may be null; it gives the type of references.
void write_attribute(wire::Writer& w, const NamedAttr& a, const Op* op, const Dims& dims, const Places* places);
void write_metadata(wire::Writer& w, wire::Field field, const Metadata& metadata);

}  // namespace sardonyx::onnx_file
