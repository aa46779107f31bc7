// The description of a Core ML model that was not read from a file: its features, with ranges of sizes, and its metadata.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sardonyx/coreml.h"

namespace sardonyx {

// What the types of the main function do not say about its inputs and results.
struct CoremlFeatures {
  std::vector<std::pair<std::string, CoremlColor>> image_inputs, image_outputs;  // by name
  // The named sizes in each shape that inputs can have, the default first. Empty: inputs of named sizes have ranges.
  std::vector<std::map<std::string, int64_t, std::less<>>> shapes;
  // What named sizes are by default, within their ranges. Others are at the low end.
  std::map<std::string, int64_t, std::less<>> default_sizes;
  std::string label, probabilities;  // a classifier's results; or empty
};

// Gives the model, whose program is finished, the description that write_coreml() then writes. Inputs whose types have named sizes get
// ranges, as the model's table of sizes has them. Throws kUnsupported for types that features of Core ML cannot have.
void describe_coreml(Model& model, const CoremlMetadata& metadata, const CoremlFeatures& features = {});

// One model of several: the main function of each becomes a function of that name, described as its model is, the first one the default.
// Models are of the mil dialect, of one specification version, and described; the result shares their payloads. Throws kInvalidArgument for
// names that Core ML's functions cannot have or that two of them have.
std::unique_ptr<Model> join_coreml(const std::vector<std::pair<std::string, const Model*>>& functions,
                                   const CoremlMetadata& metadata);

}  // namespace sardonyx
