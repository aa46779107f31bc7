// Pages of models: the drawing, and the list beside it.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "inspect/value_errors.h"
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

// What a page shows of a model besides its graph.
struct PageExtras {
  const NodeMeasure* measure = nullptr;
  const ValueErrors* errors = nullptr;
  std::string reference;  // the file that the errors are relative to
  Curve curve;            // of the optimization that wrote it
};

// The page of a model whose types were inferred. `file`: where the model lies, for its title and for source
// files beside it.
std::string model_page(const Model& m, const std::filesystem::path& file, const PageExtras& extras = {});
// The page of each step of an optimization, which changes the model.
std::string steps_page(Model& m, const std::filesystem::path& file, const OptimizeOptions& passes);

// The page of two models, whose types were inferred. Measures of both, or of none, are given.
std::string diff_page(const Model& before, const Model& after, const std::string& name_before, const std::string& name_after,
                      const NodeMeasure* measure_before = nullptr, const NodeMeasure* measure_after = nullptr);

}  // namespace sardonyx::view
