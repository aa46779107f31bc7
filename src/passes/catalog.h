// The passes there are, in the order of the lists onnx/passes.def and mil/passes.def, and the presets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/pipeline.h"

namespace sardonyx {

struct CatalogPass {
  std::string_view name, about;
  DialectId dialect;
  Pass pass;
};
std::span<const CatalogPass> catalog();
// By any spelling: "onnx::x", "common::x", "x"; null when there is none.
const CatalogPass* find_pass(std::string_view name);
// Made when it is first asked for, and kept as long as the catalogue is.
const ReadyPass& ready_pass(const CatalogPass& pass);
// Makes what the passes on a dialect keep for the whole process (patterns and their matchers), which the first model would make otherwise.
void prepare_passes(DialectId dialect);

// A preset: passes in order. One that repeats runs until nothing changes, and its rules share sweeps.
struct Preset {
  struct Item {
    std::string_view pass;
    bool bodies = true;
    bool half = false;  // only when the option compute_precision is fp16
  };
  std::string_view name;
  std::string_view about;
  std::vector<Item> items;
  bool repeat = false;
  std::optional<DialectId> dialect = {};  // only for models of this dialect
};
std::span<const Preset> presets();

// What the request asks for. Throws kInvalidArgument for unknown names and options, and says which are near.
Pipeline make_pipeline(const PassRequest& request, DialectId dialect);

// For a model whose types are all known, and what is known of its values: nothing is inferred first.
PipelineReport run_typed_passes(Model& m, const PassRequest& request, ValueFacts& facts);
// What the passes would report on a Core ML program, if samples of its ops are enough to say that they change nothing; else nullopt. `samples`,
// asked when it is needed, has one node for each way in which an op and the ops that it reads meet in the program, or is null where that
// cannot be said. `is_idle`: what the caller knows of a pass and this program by other means.
std::optional<PipelineReport> report_if_idle(const PassRequest& request, const std::function<const Graph*()>& samples,
                                             const std::function<bool(std::string_view)>& is_idle);

}  // namespace sardonyx
