// Pieces of ONNX messages, written.
#pragma once

#include <unordered_map>

#include "io/wire_writer.h"
#include "sardonyx/io.h"

namespace sardonyx::onnx_file {

// Where a tensor's bytes are in an external data file.
struct Place {
  uint32_t file = 0;
  uint64_t offset = 0;
};
struct Places {
  std::vector<std::string> files;  // names as the model gives them
  std::unordered_map<const Tensor*, Place> of;

  const Place* find(const Tensor& t) const {
    const auto at = of.find(&t);
    return at == of.end() ? nullptr : &at->second;
  }
};

// Whether write_onnx() puts tensors into a data file of their own: because it is told to, or because the model would pass what
// protobuf can hold. Throws kLimit where that is so and the options forbid it.
bool writes_data_file(const Model& model, const WriteOptions& options);

// The content of a TensorProto; `fields` is wire format to add. `places` may be null.
void write_tensor(wire::Writer& w, const Tensor& t, std::string_view name, std::string_view fields, const Places* places);
// All bytes of t, from its file where it has one, splats piece by piece.
void write_bytes(wire::Writer& w, const Tensor& t);
// Bytes that lie in a file too: from there if they are many.
void write_range(wire::Writer& w, FileRange file, std::span<const std::byte> bytes);

// The content of a TypeProto.
void write_type(wire::Writer& w, const Type* t, const Dims& dims);
// The content of a ValueInfoProto.
void write_value_info(wire::Writer& w, std::string_view name, const Type* t, const std::string& doc, const Metadata& metadata,
                      const Dims& dims);
// The content of an AttributeProto. `op` may be null; it tells the type of references.
void write_attribute(wire::Writer& w, const NamedAttr& a, const Op* op, const Dims& dims, const Places* places);
void write_metadata(wire::Writer& w, uint32_t field, const Metadata& metadata);

}  // namespace sardonyx::onnx_file
