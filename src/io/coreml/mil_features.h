// What the description of a Core ML model declares about its inputs, beyond their types in the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct CoremlFeature {
  struct Range {
    int64_t least = 0;
    std::optional<int64_t> most;
  };
  std::string name;
  std::string image;         // "RGB image, 224 x 224 (width x height)"; empty for other features
  std::vector<Range> sizes;  // of a flexible array, by axis
};

// Of the main function's inputs. Empty for ONNX, for programs without a description, and for damaged ones.
std::vector<CoremlFeature> coreml_inputs(const Model& m);

}  // namespace sardonyx
