// A model's message, and the bytes of its large tensors apart from it: for callers that fill a message of their own and hold nothing twice.
#pragma once

#include <string>
#include <unordered_map>

#include "sardonyx/io.h"

namespace sardonyx {

struct Apart {
  std::string message;                                  // the tensors are external data in it, at offsets of no file
  std::unordered_map<uint64_t, const Tensor*> tensors;  // by these offsets
  uint64_t bytes = 0;                                   // of the whole file
};

// Tensors of `threshold` bytes and more stand apart. Throws what serialize_onnx() throws.
Apart serialize_apart(const Model& model, uint64_t threshold, const WriteOptions& options = {});

}  // namespace sardonyx
