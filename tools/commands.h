// What the subcommands do; options are parsed in sardonyx_main.cc. Each returns the exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace sardonyx {
class Error;
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
};
int info(const FileArgs& files, const InfoArgs& args);

int check(const FileArgs& files);

struct DiffArgs {
  std::string before, after;
  size_t lines = 60;
  bool json = false;
};
// Compares two models: 0 when they are the same, else 1.
int diff(const DiffArgs& args);

struct VerifyArgs {
  std::string before, after;
  std::string numerics = "rounds";  // exact, rounds or relaxed, as of passes
  std::string target;               // the runtime that is to load the second as it loads the first; empty: the newest
};
// Whether two models compute the same on seeded inputs: 0 when they do, 1 when they differ, nothing could be compared, or a runtime
// loads the first alone.
int verify(const VerifyArgs& args);

// The model as text with types, or as an HTML page in `output`.
int view(const FileArgs& files, const std::string& output);

// How results are written: what optimize and lower share.
struct OutputArgs {
  std::string output;
  bool external = false;
  std::string data_file;
  uint64_t threshold = 1024;
  uint64_t max_data_file = 0;
};

struct OptimizeArgs {
  std::vector<std::string> inputs;  // files, or folders that are searched for *.onnx
  bool no_mmap = false;
  std::string passes = "onnx";  // names separated by commas, or a file with one per line
  std::vector<std::string> skip, options, input_shapes, explain;
  std::vector<std::string> calibrate;                    // Core ML: inputs of runs
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
  bool changes = false;       // Core ML: report what each pass changed
  bool link_weights = false;  // Core ML
  bool json = false;
  bool quiet = false;
};
// One model, or several into the folder out.output. Goes on after a model that is refused; the exit code says so.
int optimize(const OutputArgs& out, const OptimizeArgs& args);

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

// Lists passes and presets; with a name, shows that one.
int passes(const std::string& name, bool json);

struct RunArgs {
  std::vector<std::string> inputs, input_shapes;
  std::string output;
  bool random = false;
  bool fast = false;
  uint64_t seed = 0;
  uint64_t memory = 0;
};
int run(const FileArgs& files, const RunArgs& args);

// A program in text form (files.input), to ONNX.
int lower(const FileArgs& files, const OutputArgs& out, std::optional<int> opset, const std::string& target,
          const std::vector<std::string>& plugins);

WriteOptions write_options(const OutputArgs& out);

// Replaces this process by `python -m sardonyx` with the same arguments. Returns only by throwing (kIo).
void run_python(int argc, char** argv);

// To stderr: "error: ..." and the notes below it, indented.
void show_error(const Error& e);
void show_error(const std::exception& e);

}  // namespace sardonyx::tools
