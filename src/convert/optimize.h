// Optimizes model files: reads, runs passes, checks, writes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/opset_hint.h"
#include "inspect/model_counts.h"
#include "inspect/savings.h"
#include "rewrite/change_log.h"
#include "rewrite/values.h"
#include "sardonyx/io.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct OptimizeOptions {
  // Its observer is told the stages: read (or whole and cut, if inputs, outputs or input shapes are given),
  // raised (with an opset), optimized.
  PassRequest request;
  // ONNX: keep only the part between these values (convert/interface/submodel.h). Empty lists keep the model's own.
  std::vector<std::string> inputs, outputs;
  // Inputs whose shapes the user fixes (convert/interface/input_shapes.h). A symbol of the model that gets an integer
  // there gets it everywhere.
  std::vector<std::string> input_shapes;
  // ONNX: the opset to convert to first (convert_opset), so that fusions may use its operators; 0 keeps the
  // model's.
  int opset = 0;
  // Core ML: inputs of calibration runs, in the form of half_report(). add_fp16_cast keeps single precision
  // where these runs require it.
  std::vector<std::string> calibrate;
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
  double read_seconds = 0, optimize_seconds = 0, write_seconds = 0;
  // Parts that no rule touches (nodes with wrong types, unknown operators), and what could not be verified.
  std::vector<std::string> warnings;
  bool is_repaired = false;  // the reader or inference corrected what the file says; the warnings name it
};

// Whether the result is larger with no reported improvement: only the default preset ran, no column of
// the report became smaller, and no pass guarded against faults of runtimes. Then the input is kept, byte for byte, and the report says that nothing changed.
bool is_only_larger(const OptimizeReport& report, const OptimizeOptions& options, uint64_t before, uint64_t after);
void keep_as_it_was(OptimizeReport& report);

// The passes that convert the model to another opset, newer or older.
PassRequest conversion_to(const Model& m, int opset, Observer* observer = nullptr);

OptimizeReport optimize_model(Model& m, const OptimizeOptions& options);
// `out` may equal `in`. Throws what read_onnx, run_passes and write_onnx throw; `out` is then untouched.
OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read = {}, const WriteOptions& write = {});

// The same for Core ML: packages (.mlpackage) and bare model files.
OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read = {});

}  // namespace sardonyx
