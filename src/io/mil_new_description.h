// The description of a Core ML model that was not read from a file: its features, with ranges of sizes, and its metadata.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct CoremlMetadata {
  std::string author, license, version, description;
  Metadata user_defined;
};

// The colors of inputs that are images: pairs of a name and "rgb", "bgr" or "gray".
using CoremlColors = std::vector<std::pair<std::string, std::string>>;

// Gives the model, whose program is finished, the description that write_coreml() then writes. Inputs whose types have named sizes get
// ranges, as the model's table of sizes has them. Throws kUnsupported for types that features of Core ML cannot have.
void describe_coreml(Model& model, const CoremlMetadata& metadata, const CoremlColors& images = {});

}  // namespace sardonyx
