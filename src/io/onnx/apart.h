// Serializes a model with its large tensors kept apart, for callers that build their own message and must not
// hold the bytes twice.
#pragma once

#include <string>
#include <unordered_map>

#include "sardonyx/io.h"

namespace sardonyx {

struct Apart {
  std::string message;                                  // refers to the tensors as external data at made-up offsets
  std::unordered_map<uint64_t, const Tensor*> tensors;  // by offset
  uint64_t bytes = 0;                                   // size of the whole file
};

// Keeps tensors of at least `threshold` bytes apart. Throws what serialize_onnx() throws.
Apart serialize_apart(const Model& model, uint64_t threshold, const WriteOptions& options = {});

}  // namespace sardonyx
