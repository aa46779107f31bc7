// Passes on a Core ML program that the caller holds in memory, with types and values that the caller knows: the bridge to coremltools.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "sardonyx/infer.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// Infers nothing first: the types of all values are set, and `facts` has what is known of them.
PipelineReport run_program_passes(Model& m, const PassRequest& request, ValueFacts& facts);

// What the passes would report if samples of the program's ops are enough to say that they change nothing; else nullopt. `samples`, called
// when it is needed, has one node for each way in which an op and the ops that make its operands meet in the program; null: that is not known.
// `is_idle`: whether the caller knows by other means that a pass changes nothing in this program.
std::optional<PipelineReport> idle_report(const PassRequest& request, const std::function<const Graph*()>& samples,
                                          const std::function<bool(std::string_view)>& is_idle);

}  // namespace sardonyx
