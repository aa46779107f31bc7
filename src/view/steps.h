// The steps of an optimization or a conversion, as a picture.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sardonyx/observe.h"
#include "support/system/stopwatch.h"
#include "view/picture.h"

namespace sardonyx::view {

// Draws each state of the model that shows a difference: stages, and steps of pipelines, which are named by
// the passes that did something. Knows the scene when the run is done.
class Steps final : public Observer {
 public:
  // `file`: where the model lies, for source files beside it. The title is its name, unless another is given.
  explicit Steps(std::filesystem::path file, std::string title = {});

  // The picture as JSON (scene.h); empty before the run is done.
  const std::string& scene() const { return scene_; }

  bool names_rules() const override { return true; }
  void function(std::string_view name) override;
  void stage(std::string_view name, const Model& m) override;
  void done(const Model& m) override;
  void begin_pipeline(const Model& m, size_t num_entries) override;
  void after_pass(const Model& m, const PassStep& step, bool changed) override;
  void undone(const Model&, const PassStep&) override { fired_.clear(); }
  void fired(const Firing& f, std::span<Node* const> fresh, uint32_t first_new, std::span<Value* const> made) override;

 private:
  void add(const Model& m, std::string label);
  std::string label_of(std::string_view pass) const;

  const std::filesystem::path file_;
  const std::string title_;
  std::string function_;
  Picture picture_;
  const Model* current_ = nullptr;  // the model that the last step shows; pipelines on others are not shown
  const Model* first_ = nullptr;
  bool is_from_program_ = false;
  std::vector<std::pair<size_t, std::string>> fired_;  // since the last step: how often, the pass
  std::vector<std::pair<std::string, std::string>> facts_;
  Stopwatch watch_;
  std::string scene_;
};

}  // namespace sardonyx::view
