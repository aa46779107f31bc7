// The description of a Core ML model that was not read from a file: its features, with ranges of sizes, and
// its metadata.
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
  // The symbolic sizes in each shape that inputs may have, the default first. Empty: inputs of symbolic sizes
  // have ranges.
  std::vector<std::map<std::string, int64_t, std::less<>>> shapes;
  // Default values of symbolic sizes, within their ranges. Others default to the low end.
  std::map<std::string, int64_t, std::less<>> default_sizes;
  std::string label, probabilities;  // a classifier's results; or empty
};

// Gives the model, whose program is finished, the description that write_coreml() writes. Inputs with
// symbolic sizes get ranges from the model's table of sizes. Throws kUnsupported for types that features of
// Core ML cannot have.
void describe_coreml(Model& model, const CoremlMetadata& metadata, const CoremlFeatures& features = {});

// Joins models into one: the main function of each becomes a function of the given name, described as its
// model is; the first one is the default. The models must be of the mil dialect, of one specification
// version, and described. The result shares their payloads. Throws kInvalidArgument for names that functions
// of Core ML cannot have, or that occur twice.
std::unique_ptr<Model> join_coreml(const std::vector<std::pair<std::string, const Model*>>& functions,
                                   const CoremlMetadata& metadata);

}  // namespace sardonyx
