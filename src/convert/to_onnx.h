// From a program in the jax dialect to a finished ONNX model: lower, check, optimize.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sardonyx/lower.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// How to write layer normalization and similar functions.
enum class Normalization {
  kAuto,             // as the pipeline decides; the default one fuses them into ONNX's operators
  kPreferNative,     // as ONNX's operators, whatever the pipeline
  kForceDecomposed,  // as the arithmetic of the program
};

struct ConvertOptions {
  LowerOptions lower;
  // Passes that run after lowering; empty: none. Their observer is told the stages program, lowered,
  // optimized and, with a target, legal.
  PassRequest passes{.passes = {}};
  Normalization normalization = Normalization::kAuto;
  bool outline = false;  // run outline_functions: repeated parts of the finished graph become functions
  // Called with the optimized model, before it is legalized for a target: sets the late attributes of
  // lowerings. May be empty.
  std::function<void(Model&)> after_passes;
};

struct ConvertReport {
  double lower_seconds = 0;
  double optimize_seconds = 0;
  PipelineReport passes;
};

// Converts into `onnx`, which must be empty. Throws what lower_to_onnx() throws; `onnx` is then unusable.
void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report = nullptr);
std::unique_ptr<Model> convert(const Model& jax, const ConvertOptions& options, const LoweringRegistry& registry,
                               ConvertReport* report = nullptr);

// Throws Error(kLimit) for graphs nested deeper than protobuf's readers allow (100 messages, three per
// graph): no runtime loads such a file.
void check_nesting(const Model& onnx);

// Builds what conversions cache for the process: lowerings, tables of kernels, patterns and their matchers.
// Otherwise the first conversion builds them.
void prepare_conversion();

}  // namespace sardonyx
