// The page of a picture: one file that works without a network.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/convert.h"
#include "view/picture.h"

namespace sardonyx::view {

// What optimize --max-error tried.
struct Curve {
  std::vector<PrecisionPoint> points;  // empty: it did not run
  size_t chosen = 0;                   // the point that the model has
};

struct SceneOptions {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;             // about the model, for the panel
  bool is_diff = false;                                               // two steps are two models
  std::vector<std::pair<std::string, std::vector<double>>> measures;  // by node: "FLOPs", "milliseconds", to color by
  std::vector<double> errors;  // by value: relative to another model, -1 where it has none; empty: no model
  Curve curve;
  std::string color;  // what the page colors by first: "=" and the name of a measure; "error"; empty: the kind of operator
  // The text of source files that nodes name and that exist.
  std::vector<std::pair<std::string, std::string>> sources;
};

// The picture as JSON, which the page reads (viewer/scene.ts). No '<' is in it.
std::string scene_json(const Picture& p, const SceneOptions& options);

// Throws kUnsupported if this build has no page.
void require_page();
// The page with a picture in it, given as JSON.
std::string page(std::string_view scene);
// The page with a picture in it.
std::string page(const Picture& p, const SceneOptions& options);

}  // namespace sardonyx::view
