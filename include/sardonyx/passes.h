// Passes over graphs: the list of them, and pipelines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/op.h"

namespace sardonyx {

class Model;

// How a pass may change results.
enum class Numerics : uint8_t {
  kExact,    // same bits (any NaN is a NaN; -0 differs from 0)
  kRounds,   // error against the exact value at most twice what it was, plus 4 ulp of the largest magnitude of that output
  kRelaxed,  // as its page says
};
std::string_view to_string(Numerics n);  // "exact", "rounds", "relaxed"

// The public description of a pass.
struct PassInfo {
  std::string_view name;     // "remove_redundant_casts"
  std::string_view dialect;  // of the models it is for: "onnx" or "mil"
  std::string_view about;    // one line
  Numerics numerics = Numerics::kExact;
  std::vector<std::pair<std::string_view, std::string_view>> options;  // name, meaning
  std::vector<std::string> rules;                                      // patterns as text, for passes made of rules
};
// All passes, in the order of the catalogues.
std::vector<PassInfo> list_passes();
struct PresetInfo {
  std::string_view name, about;
  std::vector<std::string_view> passes;  // in order
};
std::vector<PresetInfo> list_presets();

// Evaluation of graphs before and after, on seeded inputs.
enum class Verify : uint8_t {
  kOff,
  kModel,  // the whole model, once, at the end
  kPass,   // each rewrite and each walk: one that changes results is undone, and the run continues
};

// A pipeline: passes in order, by any spelling of their names, or presets; "pass.option=value" sets an option
// of a pass.
struct PassRequest {
  std::vector<std::string> passes{"onnx"};
  std::vector<std::string> skip;                             // passes (or rules: "pass/rule") that do not run
  std::vector<std::pair<std::string, std::string>> options;  // "pass.option", value
  bool strict = false;                                       // a failing pass throws instead of being undone and reported
  bool verify_graph = false;                                 // the verifier runs after each pass
  Verify verify = Verify::kOff;
  bool function_bodies = true;    // bodies of model-local functions are optimized too
  bool inline_functions = false;  // onnx: calls become the nodes of their functions first
  bool prune_inputs = false;      // onnx: inputs without users are dropped
  bool allow_empty = false;       // named sizes may be zero
  int64_t fold_budget = 0;        // bytes by which folding may grow the file
  std::function<void(std::string_view pass, size_t done, size_t total)> progress;
  // Called with each near miss of the passes named in `explain`: pass, node as text (empty: it is the model),
  // reason.
  std::vector<std::string> explain;
  std::function<void(std::string_view pass, std::string_view node, std::string_view why)> on_near_miss;
};

// The effect of one entry of the pipeline.
struct PassReport {
  std::string name;
  bool changed = false;
  double seconds = 0;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::pair<std::string, size_t>> counts;  // rule or action, how often
  std::string error;                                   // empty, or why it was undone
};
struct PipelineReport {
  std::vector<PassReport> passes;
  std::vector<std::string> faults;     // of passes: what evaluation found (PassRequest::verify)
  size_t evaluations = 0;              // runs before and after that were compared
  std::string not_compared;            // why none was, although Verify::kModel asks for it
  std::vector<std::string> ill_typed;  // faults of the nodes that rules skip because their types are wrong
  double seconds = 0;
  bool failed() const;
};

// Throws kInvalidArgument for passes and options that do not exist, with the nearest names.
void check_request(const PassRequest& request, DialectId dialect);
// Runs the pipeline on the model. Throws as check_request() before anything runs; with `strict`, what a pass
// throws.
PipelineReport run_passes(Model& m, const PassRequest& request);

}  // namespace sardonyx
