// The contents of a model, in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sardonyx/ir.h"

namespace sardonyx {

struct ModelCounts {
  // Nodes by operator ("domain.Name" outside of the default domain), with those of nested graphs and
  // functions.
  std::map<std::string, size_t> ops;
  std::map<DType, uint64_t> weight_bytes;
  size_t nodes = 0, nested = 0;  // `nested`: those in nested graphs
  size_t tensors = 0;            // constants
  uint64_t parameters = 0;       // elements of constants
  uint64_t bytes = 0;            // as stored: shared weights count once, a lazy splat counts as one element
  size_t values = 0, untyped = 0;
};

ModelCounts count_model(const Model& m);

// "1.2 MB"
std::string human_bytes(uint64_t bytes);

}  // namespace sardonyx
