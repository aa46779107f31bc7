// The description of a Core ML model that was not read from a file: its features, with ranges of sizes, and its metadata.
#pragma once

#include <string>

#include "sardonyx/ir.h"

namespace sardonyx {

struct CoremlMetadata {
  std::string author, license, version, description;
  Metadata user_defined;
};

// Gives the model, whose program is finished, the description that write_coreml() then writes. Inputs whose types have named sizes get
// ranges, as the model's table of sizes has them. Throws kUnsupported for types that features of Core ML cannot have.
void describe_coreml(Model& model, const CoremlMetadata& metadata);

}  // namespace sardonyx
