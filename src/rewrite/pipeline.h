// Running passes one after another: timing, statistics, failures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rewrite/pass.h"
#include "rewrite/ready_rule.h"

namespace sardonyx {

// One pass of a pipeline and where it runs.
struct PipelineEntry {
  std::string_view name;  // the catalogue's
  const Pass* pass = nullptr;
  PassOptions options;
  bool bodies = true;   // model-local functions too, not only the main one. MIL: every function always
  bool shared = false;  // its rules share one sweep with the entries beside it that say so too
  std::vector<std::string> skipped_rules;
  std::span<const ReadyRule> ready = {};  // the pass's rules, where somebody keeps them; else each run makes them ready
};

struct Pipeline {
  std::vector<PipelineEntry> entries;
  // How often the whole list may run: again as long as the last run changed something. An entry is not run again when nothing
  // changed since it ran. What a specification orders runs once.
  int rounds = 1;
};

struct PipelineSettings {
  bool strict = false;
  bool verify_graph = false;
  std::function<void(std::string_view pass, size_t done, size_t total)> progress;
};

PipelineReport run_pipeline(PassContext& context, const Pipeline& pipeline, const PipelineSettings& settings);

}  // namespace sardonyx
