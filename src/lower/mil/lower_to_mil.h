// Lowering from the onnx dialect to the mil dialect.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Deployment targets by name: "iOS15" to "iOS18" and the systems of the same years ("macOS12", "watchOS8", "tvOS15", ...).
// Returns the specification version, 6 to 9; throws kInvalidArgument for other names.
int coreml_version_of(std::string_view target);
// 8 is "iOS17".
std::string coreml_target_name(int version);

struct LowerToMilOptions {
  int version = 8;         // the specification version that is written: 6 is iOS 15, 9 is iOS 18
  bool provenance = true;  // ops carry their provenance
};

// Lowers the main function of a model of the onnx dialect into a new model of the mil dialect; first it infers the types of `onnx`.
// Payloads are shared where their element type stays. Inputs and results have the types that Core ML's interface has: f32, i32,
// and f16 from iOS 16 on; a scalar input has one axis of size 1. Throws one Error(kUnsupported) that lists every node without a
// lowering: operator, types, count, and the source line if it is known.
std::unique_ptr<Model> lower_to_mil(Model& onnx, const LowerToMilOptions& options = {});

// Whether the table has a lowering for the operator.
bool has_mil_lowering(std::string_view domain, std::string_view op);
std::vector<std::string> mil_lowerings();  // "Conv", "com.microsoft::Gelu"; sorted

}  // namespace sardonyx
