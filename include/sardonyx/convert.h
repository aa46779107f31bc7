// From a program in the jax dialect to a finished ONNX model, and the optimization of models and files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sardonyx/calibration.h"
#include "sardonyx/eval.h"
#include "sardonyx/inspect.h"
#include "sardonyx/interface.h"
#include "sardonyx/io.h"
#include "sardonyx/lower.h"
#include "sardonyx/observe.h"
#include "sardonyx/passes.h"
#include "sardonyx/tensor.h"
#include "sardonyx/tolerance.h"

namespace sardonyx {

// How to write layer normalization and similar functions.
enum class Normalization {
  kAuto,             // as the pipeline decides; the default one fuses them into ONNX's operators
  kPreferNative,     // as ONNX's operators, whatever the pipeline
  kForceDecomposed,  // as the arithmetic of the program
};

struct ConvertOptions {
  LowerOptions lower;
  // Passes that run after lowering; empty: none. Their observer gets the stages program, lowered,
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
std::unique_ptr<Model> convert(const Model& jax, const ConvertOptions& options = {},
                               const LoweringRegistry& registry = LoweringRegistry::builtin(), ConvertReport* report = nullptr);

// ---------------------------------------------------------------------------------------------------------------------
// Optimization

// What a newer opset would give.
struct OpsetHint {
  int opset = 0;                       // the oldest one with the operators
  size_t nodes = 0;                    // that the model would have
  std::vector<std::string> operators;  // that only it has
};

// Types that were tried for values and weights, and what they cost.
struct PrecisionPoint {
  std::string types;   // "f16, 12 weights int8, 40 weights uint4"
  uint64_t bytes = 0;  // of constants
  double error = 0;    // the largest of a result, as a share of its largest element; or what the metric gives
  // Of a run, as a share of that in f32. Nullopt where no runner was given, or the error is beyond the bound.
  std::optional<double> time = {};
};

// How far results of a run, by position, are from what they were before.
using ErrorMetric = std::function<double(std::span<const EvalValue> before, std::span<const EvalValue> after)>;

struct OptimizeOptions {
  // Its observer gets the stages: read (or whole and cut, if inputs, outputs or input shapes are given),
  // raised (with an opset), optimized.
  PassRequest request;
  // ONNX: keep only the part between these values, by name. Empty lists keep the model's own.
  std::vector<std::string> inputs, outputs;
  // Inputs whose shapes the user fixes. A symbol of the model that gets a number there gets it everywhere.
  std::vector<InputShape> input_shapes;
  // ONNX: the opset to convert to first (convert_opset), so that fusions may use its operators; 0 keeps the
  // model's.
  int opset = 0;
  // The inputs of each calibration run: half precision is not for what these runs lead beyond its range.
  std::vector<NamedTensors> calibrate;
  // ONNX: chooses types of values and weights, as small as results stay within this error on the inputs of
  // `calibrate`, or on random ones. A share of the largest element of each result; 0 chooses nothing.
  double max_error = 0;
  ErrorMetric metric;  // measures that error; empty: the largest difference of a result
  // Prepares a model for runs that measure errors. Empty: the evaluator runs it.
  std::function<RunModel(const Model&)> runner;
  // Replaces the bound that the passes promise, for `request.verify`.
  std::optional<Tolerance> tolerance;
  bool declare_types = false;  // write inferred types as value_info
  // A name of the input model that remains stands for the same elements: weights that were changed and values
  // in another order of axes get new names. If false they keep theirs.
  bool keep_names = false;
  bool hint = false;           // ONNX: optimize once more in a newer opset to see if it leaves fewer nodes
  bool count_savings = false;  // report what each pass saved; costs a walk over the model for each step
  bool log_changes = false;    // report what each pass changed, and where
  // Core ML: the output links to weight files of the input in which no byte changes (CoremlWriteOptions).
  bool link_weights = false;
};

struct OptimizeReport {
  ModelCounts before, after;
  uint64_t file_before = 0, file_after = 0;  // bytes, data files included; 0 if no file was involved
  PipelineReport passes;
  std::vector<ChangeLog::Entry> changes;  // made by these passes; empty unless requested
  std::optional<Savings> savings;         // if requested
  // The largest |before - after| over all floats, and where it is. Nullopt if nothing was compared.
  std::optional<double> largest_error;
  std::string largest_at;
  std::optional<OpsetHint> hint;
  std::vector<PrecisionPoint> precision_curve;  // tried for max_error
  size_t precision_chosen = 0;                  // the point of it that was chosen
  double precision_bound = 0;                   // of its errors: max_error less a margin for other inputs
  bool has_metric = false;                      // its errors are what OptimizeOptions::metric gives
  double read_seconds = 0, optimize_seconds = 0, write_seconds = 0;
  // Parts that no rule touches (nodes with wrong types, unknown operators), and what could not be verified.
  std::vector<std::string> warnings;
  bool is_repaired = false;  // the reader or inference corrected what the file says; the warnings name it
};

// Throws what run_passes() throws, and kInvalidArgument for inputs, outputs and shapes that the model lacks.
OptimizeReport optimize_model(Model& m, const OptimizeOptions& options);
// `out` may equal `in`. Throws what read_onnx, run_passes and write_onnx throw; `out` is then untouched.
OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read = {}, const WriteOptions& write = {});

// The same for Core ML: packages (.mlpackage) and bare model files.
OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read = {});

}  // namespace sardonyx
