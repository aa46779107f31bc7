// Pages of models: the drawing, and the list beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/convert.h"
#include "driver/optimize.h"
#include "driver/to_coreml.h"
#include "view/scene.h"

namespace sardonyx::view {

// Versions, inputs, results and sizes, as a list of names and texts.
std::vector<std::pair<std::string, std::string>> page_facts(const Model& m);

// Numbers of nodes to color by, such as "milliseconds".
struct NodeMeasure {
  std::string name;
  std::unordered_map<const Node*, double> by_node;
};

// The page of a model whose types were inferred; with `passes`, the page of each step of that optimization, which changes the model.
// `file`: where the model lies, for its title and for source files beside it.
std::string model_page(Model& m, const std::filesystem::path& file, const OptimizeOptions* passes = nullptr,
                       const NodeMeasure* measure = nullptr);
// The steps as JSON, for a file of them (view/steps_file.h).
std::string steps_scene(Model& m, const std::filesystem::path& file, const OptimizeOptions& passes);

// The steps from a program of the jax dialect to ONNX, as JSON.
std::string conversion_scene(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
                             const std::string& title);

// Converts `onnx` to Core ML, writes the package to `out`, and the steps to `steps` (.sxt). `jax`: the program that `onnx` was
// lowered from, or null.
ToCoremlReport convert_to_coreml_with_steps(const Model* jax, Model& onnx, const std::filesystem::path& out,
                                            const std::filesystem::path& steps, const ToCoremlOptions& options);

// The page of two models, whose types were inferred. Measures of both, or of none, are given.
std::string diff_page(const Model& before, const Model& after, const std::string& name_before, const std::string& name_after,
                      const NodeMeasure* measure_before = nullptr, const NodeMeasure* measure_after = nullptr);

}  // namespace sardonyx::view
