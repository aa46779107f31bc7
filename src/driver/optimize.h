// From an ONNX model to a smaller and faster one: read, run passes, check, write.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "driver/model_counts.h"
#include "rewrite/change_log.h"
#include "sardonyx/io.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct OptimizeOptions {
  PassRequest request;
  // Inputs whose shape the user fixes (driver/input_shapes.h). A name of the model that meets an integer there has that value everywhere.
  std::vector<std::string> input_shapes;
  // ONNX: the opset that the model is spelled in first (convert_opset), so that fusions may use what came since; 0 keeps its own.
  int opset = 0;
  // Core ML: inputs of calibration runs, as half_report() takes them. add_fp16_cast then keeps single precision where these runs say so.
  std::vector<std::string> calibrate;
  bool declare_types = false;  // write what inference found as value_info
  // A name of the model that came in stands for the same elements in the result, or is gone: weights that were changed and values in another
  // order of axes get new names. Without it they keep theirs.
  bool keep_names = false;
  bool log_changes = false;  // Core ML: report what each pass changed, and where
  // Core ML: the result shares files of weights of which no byte changes with what was read (CoremlWriteOptions).
  bool link_weights = false;
};

struct OptimizeReport {
  ModelCounts before, after;
  uint64_t file_before = 0, file_after = 0;  // bytes, data files included; 0 when no file was involved
  PipelineReport passes;
  std::vector<ChangeLog::Entry> changes;  // of each of these passes; empty where nobody asked
  double read_seconds = 0, optimize_seconds = 0, write_seconds = 0;
  // What no rule touches: nodes whose types are wrong, operators that are not known. And what could not be verified.
  std::vector<std::string> warnings;
};

// Whether the result is larger with no reported improvement: only the default preset ran, and no column of the report became smaller. Then the
// input is kept, byte for byte, and the report says that nothing changed.
bool is_only_larger(const OptimizeReport& report, const OptimizeOptions& options, uint64_t before, uint64_t after);
void keep_as_it_was(OptimizeReport& report);

// The passes that spell the model in another opset, newer or older.
PassRequest conversion_to(const Model& m, int opset);

OptimizeReport optimize_model(Model& m, const OptimizeOptions& options);
// `out` may be `in`. Throws what read_onnx, run_passes and write_onnx throw; `out` is whole or untouched.
OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read = {}, const WriteOptions& write = {});

// The same for Core ML: packages (.mlpackage) and bare model files.
OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read = {});

}  // namespace sardonyx
