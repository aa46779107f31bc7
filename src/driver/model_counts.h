// What a model consists of, in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sardonyx/ir.h"

namespace sardonyx {

struct ModelCounts {
  std::map<std::string, size_t>
      ops;  // nodes by operator ("domain.Name" outside the default one), nested graphs and functions too
  std::map<DType, uint64_t> weight_bytes;
  size_t nodes = 0, nested = 0;  // of them in nested graphs
  size_t tensors = 0;            // constants
  uint64_t parameters = 0;       // their elements
  uint64_t bytes = 0;            // as stored: tied weights once, lazy splats as one element
  size_t values = 0, untyped = 0;
};

ModelCounts count_model(const Model& m);

// "1.2 MB"
std::string human_bytes(uint64_t bytes);

}  // namespace sardonyx
