// Lowering from the onnx dialect to the mil dialect.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/coreml.h"

namespace sardonyx {

struct LowerToMilOptions {
  int version = 8;         // the specification version that is written: 6 is iOS 15, 9 is iOS 18
  bool provenance = true;  // ops carry their provenance
  // A state is read at the beginning, and holds the result at the end. It has f16 elements, the only ones
  // that Core ML's states have.
  std::vector<CoremlState> states;
  std::vector<CoremlImage> image_inputs, image_outputs;
  std::vector<CoremlFloat> input_types, output_types;  // the last entry for an input or result wins
};

// Lowers the main function of a model of the onnx dialect into a new model of the mil dialect, after
// inferring the types of `onnx`. Payloads whose element type does not change are shared. Inputs and results
// have the types of Core ML's interface: f32, i32, and f16 from iOS 16 on, as in the model unless the options
// override them; a scalar input gets one axis of size 1. Throws one Error(kUnsupported) that lists every node
// that cannot be lowered: operator, types, count, and the source line if it is known.
std::unique_ptr<Model> lower_to_mil(Model& onnx, const LowerToMilOptions& options = {});

// Whether the table has a lowering for the operator.
bool has_mil_lowering(std::string_view domain, std::string_view op);
std::vector<std::string> mil_lowerings();  // "Conv", "com.microsoft::Gelu"; sorted

}  // namespace sardonyx
