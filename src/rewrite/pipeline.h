// Runs passes in order and records time, statistics and failures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rewrite/pass.h"
#include "rewrite/ready_rule.h"

namespace sardonyx {

// One pass of a pipeline and the graphs that it runs on.
struct PipelineEntry {
  std::string_view name;  // the catalogue's
  const Pass* pass = nullptr;
  PassOptions options;
  bool bodies = true;  // run on model-local functions too, not only on the main one (MIL: always on every function)
  // Adjacent entries with this flag run together: they share sweeps and repeat until none of them changes
  // anything.
  bool repeats = false;
  std::vector<std::string> skipped_rules;
  const ReadyPass* ready = nullptr;  // the compiled pass, if the caller keeps it; else each run compiles it
};

struct Pipeline {
  std::vector<PipelineEntry> entries;
};

struct PipelineSettings {
  bool strict = false;
  bool verify_graph = false;
  bool verify_rewrites = false;  // evaluates rewrites and walks; faults go to the report
  NodeRefusal refusal;           // if set, a pass that makes a node it refuses is treated as faulty
};

PipelineReport run_pipeline(PassContext& context, const Pipeline& pipeline, const PipelineSettings& settings);

}  // namespace sardonyx
