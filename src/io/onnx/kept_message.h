// Messages kept as they were read (TrainingInfoProto), except for tensors with external data. These must move
// with the model, so they are read like other tensors and written back in place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/onnx/onnx_parts.h"
#include "io/onnx/write_parts.h"

namespace sardonyx::onnx_file {

struct KeptTensor {
  const char* at = nullptr;  // its TensorProto
  TensorPtr tensor;
  Name name;
  std::string fields;  // see FileRecord::OfTensor
};

// The tensors with external data at any depth of a TrainingInfoProto, in order. Throws what read_tensor()
// throws.
std::vector<KeptTensor> read_training_tensors(std::string_view wire, const ModelBytes& source, ExternalFiles& external);

// Writes the content of a TrainingInfoProto, replacing `tensors` (all of the model's, in order) where they
// were.
void write_training_info(wire::Writer& w, std::string_view wire, const std::vector<KeptTensor>& tensors, const Places* places);

}  // namespace sardonyx::onnx_file
