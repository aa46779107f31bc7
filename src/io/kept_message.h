// Messages that are kept as they were read (TrainingInfoProto), and the tensors in them whose elements lie in other files: these
// have to move with the model, so they are read like others, and written again in their places.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/onnx_parts.h"
#include "io/write_parts.h"

namespace sardonyx::onnx_file {

struct KeptTensor {
  const char* at = nullptr;  // its TensorProto
  TensorPtr tensor;
  Name name;
  std::string fields;  // see FileRecord::OfTensor
};

// The tensors with external data in a TrainingInfoProto, at any depth, in order. Throws what read_tensor() throws.
std::vector<KeptTensor> read_training_tensors(std::string_view wire, const ModelBytes& source, ExternalFiles& external);

// The content of a TrainingInfoProto with `tensors` (all of the model's, in order) written anew where they stood.
void write_training_info(wire::Writer& w, std::string_view wire, const std::vector<KeptTensor>& tensors, const Places* places);

}  // namespace sardonyx::onnx_file
