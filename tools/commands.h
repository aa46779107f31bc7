// The subcommands. sardonyx_main.cc parses their options. Each returns the exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx {
class Error;
enum class DialectId : uint8_t;
struct OptimizeOptions;
struct WriteOptions;
}  // namespace sardonyx

namespace sardonyx::tools {

struct FileArgs {
  std::string input;
  bool no_mmap = false;
};

struct InfoArgs {
  bool json = false;
  bool text = false;
  bool infer = false;
  size_t most = 5;  // nodes and tensors that are listed
  std::vector<std::string> input_shapes;
};
int info(const FileArgs& files, const InfoArgs& args);

int check(const FileArgs& files, bool json);

struct DiffArgs {
  std::string before, after;
  std::string output;  // a page that shows both
  size_t lines = 60;
  bool json = false;
};
// Compares two models. Returns 0 when they are the same, else 1.
int diff(const DiffArgs& args);

struct VerifyArgs {
  std::string before, after;
  std::string numerics;  // exact, rounds or relaxed, as of passes; empty: rounds for ONNX, relaxed for Core ML
  std::string target;    // the runtime that must load the second model if it loads the first; empty: the newest
  std::optional<double> rtol, atol;
  bool json = false;
};
// Checks that two models compute the same on seeded inputs. Returns 0 when they do; 1 when they differ, when
// nothing could be compared, or when a runtime loads only the first.
int verify(const VerifyArgs& args);

struct ViewArgs {
  std::string output;
  std::string passes;  // a page with the steps of these passes; empty: of the model as it is
  bool json = false;
};
// Prints the model as text with types, or writes it to `output` as text or as a page, by its suffix.
int view(const FileArgs& files, const ViewArgs& args);

struct WhereArgs {
  std::string node;  // a node or a result
  std::string line;  // "model.py:41"
  bool json = false;
};
// Prints where a node comes from, or the nodes that come from a line. Returns 1 if there are none.
int where(const FileArgs& files, const WhereArgs& args);

// Options for writing results, shared by optimize and lower.
struct OutputArgs {
  std::string output;
  bool external = false;
  std::string data_file;
  uint64_t threshold = 1024;
  uint64_t max_data_file = 0;
};

struct OptimizeArgs {
  std::string command;              // as people type it
  std::vector<std::string> inputs;  // files, or folders that are searched for models
  bool no_mmap = false;
  std::string passes;  // names separated by commas, or a file with one per line; empty: the preset
  std::vector<std::string> cut_inputs, cut_outputs;  // ONNX: the part between these values
  std::optional<double> rtol, atol;                  // of --verify
  std::vector<std::string> skip, options, input_shapes, explain;
  std::vector<std::string> calibrate;                    // Core ML: inputs of calibration runs
  std::string compute_precision;                         // Core ML: fp16 or fp32
  std::vector<std::string> image_inputs, output_dtypes;  // Core ML: NAME:nhwc, NAME=fp16
  std::string fold_budget = "0";
  int opset = 0;
  std::string verify = "off";
  bool strict = false;
  bool prune_inputs = false;
  bool keep_names = false;
  bool allow_empty = false;
  bool inline_functions = false;
  bool declare_types = false;
  std::string trace;          // a file for the steps, which `view` shows
  bool changes = false;       // Core ML: report what each pass changed
  bool link_weights = false;  // Core ML
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool dry_run = false;  // do everything but write
};
// Optimizes one model, or several into the folder out.output. Continues after a model that is refused; the
// exit code tells.
int optimize(const OutputArgs& out, const OptimizeArgs& args);

// What `optimize` does with these --passes and no other option.
OptimizeOptions optimize_options(const std::string& passes, DialectId dialect);

// The same for Core ML packages and model files.
int optimize_coreml(const std::string& output, const OptimizeArgs& args);

struct HalfReportArgs {
  std::string input;
  std::vector<std::string> runs;  // .npz files, NAME=FILE.npy, NAME=VALUE
  size_t random_runs = 2;
  uint64_t seed = 0;
  bool no_mmap = false;
  bool json = false;
};
// Reports the ops of a Core ML program that half precision would break.
int half_report(const HalfReportArgs& args);

// Lists passes and presets, or shows the one named. A part of a name lists all that contain it. `dialect`, if
// not empty, selects the passes.
int passes(const std::string& name, std::string_view dialect, bool json);

struct RunArgs {
  std::vector<std::string> inputs, input_shapes;
  std::string output;
  bool random = false;
  bool fast = false;
  uint64_t seed = 0;
  uint64_t memory = 0;
  bool json = false;
};
int run(const FileArgs& files, const RunArgs& args);

// Lowers a program in text form (files.input) to ONNX.
int lower(const FileArgs& files, const OutputArgs& out, std::optional<int> opset, const std::string& target,
          const std::vector<std::string>& plugins, bool json);

WriteOptions write_options(const OutputArgs& out);

// Replaces this process by Python, which runs `sardonyx` with these arguments. Returns only by throwing (kIo).
[[noreturn]] void run_python(const std::vector<std::string>& arguments);

// Prints "error: ..." and the indented notes to stderr.
void show_error(const std::exception& e);
// The exit code for an error: 2 if the command line is wrong, else 1.
int exit_code_of(const std::exception& e);
// Runs a command. With `json`, prints an error as an object of --json as well.
int guarded(std::string_view command, const std::string& input, bool json, const std::function<int()>& run);

}  // namespace sardonyx::tools
