// Pages of models: the drawing, and the list beside it.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/convert.h"
#include "view/scene.h"

namespace sardonyx::view {

// Versions, inputs, results and sizes, as a list of names and texts.
std::vector<std::pair<std::string, std::string>> page_facts(const Model& m);

// Numbers of nodes to color by, such as "milliseconds".
struct NodeMeasure {
  std::string name;
  std::unordered_map<const Node*, double> by_node;
};

// What a page of the file is called.
std::string title_of(const std::filesystem::path& file);

// The picture as JSON, with the work of its last step, which is `m`, and the source files that nodes name and
// that are beside `file` or in this folder.
std::string scene_of(const Model& m, const Picture& picture, SceneOptions options, const std::filesystem::path& file);

// The page of a model whose types were inferred; with `passes`, the page of each step of that optimization,
// which changes the model (then without a measure). `file`: where the model lies, for its title and for
// source files beside it.
std::string model_page(Model& m, const std::filesystem::path& file, const OptimizeOptions* passes = nullptr,
                       const NodeMeasure* measure = nullptr);

// The page of two models, whose types were inferred. Measures of both, or of none, are given.
std::string diff_page(const Model& before, const Model& after, const std::string& name_before, const std::string& name_after,
                      const NodeMeasure* measure_before = nullptr, const NodeMeasure* measure_after = nullptr);

}  // namespace sardonyx::view
