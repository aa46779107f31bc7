// Passes over graphs: their list, and pipelines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/op.h"

namespace sardonyx {

class Model;
class Observer;
struct Calibration;

// How a pass may change numerical results.
enum class Numerics : uint8_t {
  kExact,    // same bits (any NaN is a NaN; -0 differs from 0)
  kRounds,   // error against the exact value at most doubles, plus 4 ulp of the largest magnitude of that output
  kRelaxed,  // as documented on its page
};
std::string_view to_string(Numerics n);  // "exact", "rounds", "relaxed"

// The public description of a pass.
struct PassInfo {
  std::string_view name;     // "remove_redundant_casts"
  std::string_view dialect;  // of its models: "onnx" or "mil"
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

// Checks results by evaluating graphs before and after on seeded inputs.
enum class Verify : uint8_t {
  kOff,
  kModel,  // the whole model, once, at the end
  kPass,   // each rewrite and each walk: one that changes results is undone, and the run continues
};

// A pipeline: passes in order, by any spelling of their names, or presets; "pass.option=value" sets an option
// of a pass.
struct PassRequest {
  std::vector<std::string> passes{"onnx"};
  std::vector<std::string> skip = {};                             // passes (or rules: "pass/rule") to skip
  std::vector<std::pair<std::string, std::string>> options = {};  // "pass.option", value
  bool strict = false;                                            // a failing pass throws; otherwise it is undone
  bool verify_graph = false;                                      // the verifier runs after each pass
  Verify verify = Verify::kOff;
  bool function_bodies = true;    // also optimize the bodies of model-local functions
  bool inline_functions = false;  // onnx: inline all function calls first
  bool prune_inputs = false;      // onnx: drop inputs without users
  bool allow_empty = false;       // named sizes may be zero
  int64_t fold_budget = 0;        // bytes by which folding may grow the file
  // Passes whose near misses are reported to the observer.
  std::vector<std::string> explain = {};
  Observer* observer = nullptr;              // sardonyx/observe.h; null: nobody watches
  const Calibration* calibration = nullptr;  // sardonyx/calibration.h; null: passes know constants alone
};

// The effect of one entry of the pipeline.
struct PassReport {
  std::string name;
  bool changed = false;
  double seconds = 0;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::pair<std::string, size_t>> counts;  // rule or action, and its count
  std::string error;                                   // why the entry was undone, else empty
};
struct PipelineReport {
  std::vector<PassReport> passes;
  std::vector<std::string> faults;     // faults of passes found by evaluation (PassRequest::verify)
  size_t evaluations = 0;              // pairs of runs compared
  std::string not_compared;            // why nothing was compared, although Verify::kModel asks for it
  std::vector<std::string> ill_typed;  // errors of ill-typed nodes, which rules skip
  // What did not converge and was stopped: rules or passes that undo each other. The model is what it then
  // was.
  std::vector<std::string> not_converged;
  double seconds = 0;
  bool failed() const;
};

// Throws kInvalidArgument for unknown passes and options, with the nearest names.
void check_request(const PassRequest& request, DialectId dialect);
// Runs the pipeline on the model. Throws like check_request() before anything runs; with `strict`, also
// throws what a pass throws.
PipelineReport run_passes(Model& m, const PassRequest& request);

}  // namespace sardonyx
