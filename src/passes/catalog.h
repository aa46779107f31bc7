// All passes, in the order of onnx/passes.def and mil/passes.def, and all presets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/pipeline.h"
#include "rewrite/values.h"

namespace sardonyx {

struct CatalogPass {
  std::string_view name, about;
  DialectId dialect;
  Pass pass;
};
std::span<const CatalogPass> catalog();
// Accepts every spelling: "onnx::x", "common::x", "x". Null if there is no such pass.
const CatalogPass* find_pass(std::string_view name);
// Built on first use and kept as long as the catalog.
const ReadyPass& ready_pass(const CatalogPass& pass);
// Builds the process-wide data of a dialect's passes (patterns and their matchers) up front, so that the
// first model does not pay for it.
void prepare_passes(DialectId dialect);

// The pass that makes the operator (Attention: fuse_attention). Null if there is none.
const CatalogPass* pass_that_makes(std::string_view op);

// A preset lists passes in order. A repeating preset runs until nothing changes, and its rules share sweeps.
struct Preset {
  struct Item {
    std::string_view pass;
    bool bodies = true;
    bool half = false;     // only when the option `precision` is f16
    bool repeats = false;  // of the preset that lists the pass itself
  };
  std::string_view name;
  std::string_view about;
  std::vector<Item> items;
  bool repeat = false;
  std::optional<DialectId> dialect = {};  // only for models of this dialect
};
std::span<const Preset> presets();  // their items are passes: those of nested presets stand in their place

// The pipeline that the request describes. Throws kInvalidArgument for unknown names and options, with
// suggestions.
Pipeline make_pipeline(const PassRequest& request, DialectId dialect);

// The loosest class among the requested passes.
Numerics numerics_of(const PassRequest& request, DialectId dialect);

// Like run_passes(), but leaves the comparison of the whole model (PassRequest::verify) to the caller.
PipelineReport run_uncompared(Model& m, const PassRequest& request);

// That comparison. Adds its evaluations to `report`. Throws if the models differ.
ValueCheck check_results(const Model& before, const Model& after, const PassRequest& request, Numerics numerics,
                         const std::optional<Tolerance>& tolerance, PipelineReport& report);

// Runs the passes on a model whose types and value facts are already known: it infers nothing first.
PipelineReport run_typed_passes(Model& m, const PassRequest& request, ValueFacts& facts);
// The report of the passes on a Core ML program that they provably do not change; nullopt if that cannot be
// proved. `samples` is called on demand. It returns a graph with one node for each way in which an op and the
// producers of its operands occur together in the program, or null if there is no such graph. `is_idle` says
// whether the caller already knows that a pass does nothing on this program.
std::optional<PipelineReport> report_if_idle(const PassRequest& request, const std::function<const Graph*()>& samples,
                                             const std::function<bool(std::string_view)>& is_idle);

}  // namespace sardonyx
