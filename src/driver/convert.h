// From a program in the jax dialect to a finished ONNX model: lower, check, optimize.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sardonyx/lower.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// How layer normalization and its like are written.
enum class Normalization {
  kAuto,             // as the pipeline does it: the default one fuses them into ONNX's operators
  kPreferNative,     // as ONNX's operators, whatever the pipeline
  kForceDecomposed,  // as the arithmetic that the program spells
};

struct ConvertOptions {
  LowerOptions lower;
  PassRequest passes{.passes = {}};  // what runs after lowering; empty: nothing
  Normalization normalization = Normalization::kAuto;
  bool outline = false;  // parts of the finished graph that repeat become functions: the pass outline_functions
  // Called with the optimized model, before a target makes it legal: for attributes that lowerings set late. May be empty.
  std::function<void(Model&)> after_passes;
  // A folder (made if it is not there) that gets the graph in text form before lowering, after it and after the passes: 0_program.sx,
  // 1_lowered.sx, 2_optimized.sx and, with a target, 3_legal.sx. A stage that fails leaves the files of those before it. Empty: nothing is written.
  std::filesystem::path dump;
};

struct ConvertReport {
  double lower_seconds = 0;
  double optimize_seconds = 0;
  PipelineReport passes;
};

// Converts into `onnx`, which must be empty. Throws what lower_to_onnx() throws; `onnx` is of no use then.
void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report = nullptr);
std::unique_ptr<Model> convert(const Model& jax, const ConvertOptions& options, const LoweringRegistry& registry,
                               ConvertReport* report = nullptr);

// Throws Error(kLimit) for graphs nested deeper than protobuf's readers follow (100 messages, three for each graph): no runtime loads such a file.
void check_nesting(const Model& onnx);

// Makes what conversions keep for the whole process (lowerings, what runtimes can run, patterns and their matchers), which the first of
// them would make otherwise.
void prepare_conversion();

}  // namespace sardonyx
