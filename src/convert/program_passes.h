// Runs passes on a Core ML program in memory whose types and values the caller knows: the bridge to
// coremltools.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "sardonyx/infer.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// Does not infer types first: all values have their types, and `facts` holds what is known about them.
PipelineReport run_program_passes(Model& m, const PassRequest& request, ValueFacts& facts);

// The report of a run that changes nothing, if samples of the program's ops prove that; else nullopt.
// `samples` is called when needed. Its graph has one node for each combination of an op and the ops that
// compute its operands; null: unknown. `is_idle` tells whether the caller knows by other means that a pass
// changes nothing in this program.
std::optional<PipelineReport> idle_report(const PassRequest& request, const std::function<const Graph*()>& samples,
                                          const std::function<bool(std::string_view)>& is_idle);

}  // namespace sardonyx
