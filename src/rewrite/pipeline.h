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
  bool bodies = true;  // model-local functions too, not only the main one. MIL: every function always
  // It runs with the entries beside it that say so too: again and again, until none of them changes anything, and their rules share sweeps.
  bool repeats = false;
  std::vector<std::string> skipped_rules;
  const ReadyPass* ready = nullptr;  // made of the pass, where somebody keeps it; else each run makes it
};

struct Pipeline {
  std::vector<PipelineEntry> entries;
};

struct PipelineSettings {
  bool strict = false;
  bool verify_graph = false;
  bool verify_rewrites = false;  // rewrites and walks are evaluated; the report has the faults
  NodeRefusal refusal;           // if not null, they make no node that it refuses, else likewise
  std::function<void(std::string_view pass, size_t done, size_t total)> progress;
};

PipelineReport run_pipeline(PassContext& context, const Pipeline& pipeline, const PipelineSettings& settings);

}  // namespace sardonyx
