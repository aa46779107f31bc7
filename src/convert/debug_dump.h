// Writes the graph as text at each stage of a run.
#pragma once

#include <filesystem>

#include "sardonyx/observe.h"

namespace sardonyx {

// Into a folder (created if missing), numbered: 0_program.sx, 1_lowered.sx. Functions of a package get
// folders of their own in it. A stage that fails leaves the files of earlier stages.
class DebugDump final : public Observer {
 public:
  explicit DebugDump(std::filesystem::path folder) : top_(std::move(folder)), folder_(top_) {}

  void function(std::string_view name) override;
  void stage(std::string_view name, const Model& m) override;

 private:
  const std::filesystem::path top_;
  std::filesystem::path folder_;
  size_t count_ = 0;
};

}  // namespace sardonyx
