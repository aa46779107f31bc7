// Pages of models: the drawing, and the list beside it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "driver/optimize.h"
#include "view/scene.h"

namespace sardonyx::view {

// Versions, inputs, results and sizes, as a list of names and texts.
std::vector<std::pair<std::string, std::string>> page_facts(const Model& m);

// The page of a model whose types were inferred; with `passes`, the page of each step of that optimization, which changes the model.
// `file`: where the model lies, for its title and for source files beside it.
std::string model_page(Model& m, const std::filesystem::path& file, const OptimizeOptions* passes = nullptr);

// The page of two models, whose types were inferred.
std::string diff_page(const Model& before, const Model& after, const std::string& name_before, const std::string& name_after);

}  // namespace sardonyx::view
