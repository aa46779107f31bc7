// The sardonyx command. Only this file includes CLI11, which takes seconds to compile.
//
// Exit codes: 0 = success; 1 = the input was refused, or a check failed; 2 = the command line is invalid.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "sardonyx/error.h"
#include "sardonyx/version.h"
#include "support/nearest.h"

namespace sardonyx::tools {
namespace {

constexpr int kRefused = 1;
constexpr int kUsage = 2;

// CLI11 parses -1 as the largest unsigned number.
const std::function<std::string(const std::string&)> kNoSign = [](const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} is negative", text) : std::string();
};

// Suggests the nearest command when the name is unknown. CLI11 would only ask for a command.
void require_known(const CLI::App& app, std::string_view name) {
  std::vector<std::string> commands;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) commands.push_back(c->get_name());
  const std::vector<std::string_view> names(commands.begin(), commands.end());
  if (name.empty() || name.starts_with('-') || std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string_view meant = nearest(name, names);
  throw Error(
      ErrorCode::kInvalidArgument, fmt::format("there is no command named '{}'", name),
      {meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant)});
}

// Limits each option to one argument, since models may follow it; the option can be repeated. Only
// --calibrate takes a list.
void take_one_text_each(CLI::App* command) {
  for (CLI::Option* o : command->get_options()) {
    if (!o->get_positional() && o->get_items_expected_max() > 1 && o->get_name() != "--calibrate") o->allow_extra_args(false);
  }
}

// Each member function adds one command to `to` and sets the function that runs it.
class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", version());
    app_.require_subcommand(1);
    app_.failure_message([](const CLI::App*, const CLI::Error& e) {
      return fmt::format("error: {}\n  help: `sardonyx --help`, `sardonyx COMMAND --help`\n", e.what());
    });
    add_info(app_);
    add_check(app_);
    add_diff(app_);
    add_verify(app_);
    add_view(app_);
    add_optimize(app_);
    add_convert_opset(app_);
    auto* coreml = app_.add_subcommand("coreml", "Core ML packages and model files")->require_subcommand(1);
    add_info(*coreml);
    add_diff(*coreml);
    add_view(*coreml);
    add_coreml_optimize(*coreml);
    add_half_report(*coreml);
    add_passes(app_);
    add_run(app_);
    add_run(*coreml);
    add_lower(app_);
    // Python parses these; they are added here only for --help.
    app_.add_subcommand("export", "Export a JAX function, given as module:function, as ONNX");
    app_.add_subcommand("explain", "List the primitives of a JAX function, and whether it can be exported");
    app_.add_subcommand("lint-plugin", "Check plugins for misuse of the builder");
  }

  // Returns the exit code.
  int execute(int argc, char** argv) {
    int first = 1;  // the first argument after --plugin options
    while (first < argc && std::string_view(argv[first]).starts_with("--plugin"))
      first += std::string_view(argv[first]) == "--plugin" ? 2 : 1;
    const std::string_view command = first < argc ? argv[first] : "";
    if (command == "export" || command == "explain" || command == "lint-plugin") run_python(argc, argv);
    require_known(app_, command);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      const int code = app_.exit(e);
      return code == 0 ? 0 : kUsage;
    }
    return status_;
  }

 private:
  void add_input(CLI::App* command) {
    command->add_option("model", files_.input, "ONNX model, or Core ML package")->required();
    command->add_flag("--no-mmap", files_.no_mmap, "Read files instead of mapping them, for untrusted storage");
  }

  void add_output(CLI::App* command) {
    command->add_option("-o,--output", output_.output, "Output file or folder")->required();
    command->add_flag("--external-data", output_.external, "Write weights to a separate file");
    command->add_option("--data-file", output_.data_file, "Name of the weights file, beside the model");
    command->add_option("--data-threshold", output_.threshold, "Tensors below this many bytes stay in the model")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_option("--max-data-file", output_.max_data_file, "Start another weights file beyond this many bytes")
        ->check(kNoSign);
  }

  CLI::Option* add_opset(CLI::App* command) {
    return command->add_option("--opset", optimize_.opset, "Convert the model to this opset, newer or older")
        ->check(CLI::Range(1, 9999));
  }

  static void add_verify_option(CLI::App* command, OptimizeArgs& args) {
    command->add_option("--verify", args.verify, "Evaluate the model, or each pass, before and after on random inputs")
        ->check(CLI::IsMember({"off", "model", "pass"}))
        ->capture_default_str();
  }

  void add_info(CLI::App& to) {
    auto* command = to.add_subcommand("info", "Summarize a model: inputs, outputs, operators, sizes");
    add_input(command);
    command->add_flag("--json", info_.json, "Machine-readable output");
    command->add_flag("--text", info_.text, "Print the whole graph in Sardonyx's text form");
    command->add_flag("--infer", info_.infer, "Infer types first");
    command->callback([this] { status_ = info(files_, info_); });
  }

  void add_check(CLI::App& to) {
    auto* command = to.add_subcommand("check", "Verify a model and its types");
    add_input(command);
    command->callback([this] { status_ = check(files_); });
  }

  void add_diff(CLI::App& to) {
    auto* command = to.add_subcommand("diff", "Compare two models; exit code 1 if they differ");
    command->add_option("before", diff_.before, "ONNX model, or Core ML package")->required();
    command->add_option("after", diff_.after, "The model to compare with")->required();
    command->add_option("--lines", diff_.lines, "Show at most this many differing lines")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_flag("--json", diff_.json, "Machine-readable output");
    command->callback([this] { status_ = diff(diff_); });
  }

  void add_verify(CLI::App& to) {
    auto* command = to.add_subcommand("verify", "Evaluate two models on the same inputs; exit code 1 if they differ");
    command->add_option("before", verify_.before, "ONNX model, or Core ML package")->required();
    command->add_option("after", verify_.after, "The model to compare with")->required();
    command->add_option("--numerics", verify_.numerics, "What counts as equal: all bits, up to rounding, or up to a thousandth")
        ->check(CLI::IsMember({"exact", "rounds", "relaxed"}))
        ->capture_default_str();
    command->add_option("--target", verify_.target,
                        "The runtime (ort-1.23) that must load the second model if it loads the first; by default the newest");
    command->callback([this] { status_ = verify(verify_); });
  }

  void add_view(CLI::App& to) {
    auto* command = to.add_subcommand("view", "Show a model as text with types, or as an HTML page");
    add_input(command);
    command->add_option("-o,--output", view_output_, "The HTML page to write");
    command->callback([this] { status_ = view(files_, view_output_); });
  }

  void add_optimize(CLI::App& to) {
    auto* command = to.add_subcommand("optimize", "Make models smaller and faster, with the same results");
    command->add_option("models", optimize_.inputs, "ONNX models, or folders of them")->required();
    command->add_flag("--no-mmap", optimize_.no_mmap, "Read files instead of mapping them");
    add_output(command);
    command->add_option("--passes,--preset", optimize_.passes, "Preset, comma-separated passes, or a file of passes")
        ->capture_default_str();
    command->add_option("--skip", optimize_.skip, "Passes (or pass/rule) to skip, separated by commas")->delimiter(',');
    command->add_option("--option", optimize_.options, "Set an option of one pass: pass.option=value");
    command->add_option("--input-shape", optimize_.input_shapes, "Shape of an input: x=f32[1,3,224,224] or x:1,3,224,224");
    add_opset(command);
    command->add_option("--fold-budget", optimize_.fold_budget, "Bytes by which folding may grow the file (64k, 10M)")
        ->capture_default_str();
    command
        ->add_option("--explain", optimize_.explain,
                     "Report why these passes (or those that make an operator: Attention) skipped near matches")
        ->delimiter(',');
    add_verify_option(command, optimize_);
    command->add_flag("--prune-inputs", optimize_.prune_inputs, "Drop unused inputs");
    command->add_flag("--keep-names", optimize_.keep_names,
                      "Keep a name only where it means the same elements: changed weights get new names");
    command->add_flag("--inline", optimize_.inline_functions, "Inline calls of functions");
    command->add_flag("--allow-empty", optimize_.allow_empty, "Allow named input sizes to be zero");
    command->add_flag("--strict", optimize_.strict, "Stop when a pass fails, instead of skipping it");
    command->add_flag("--declare-types", optimize_.declare_types, "Write inferred types as value_info");
    command->add_flag("--json", optimize_.json, "Machine-readable output");
    command->add_flag("--quiet", optimize_.quiet, "Print errors only; no progress bar");
    take_one_text_each(command);
    command->callback([this] { status_ = optimize(output_, optimize_); });
  }

  void add_convert_opset(CLI::App& to) {
    auto* command = to.add_subcommand("convert-opset", "Convert models to another opset without optimizing them");
    command->add_option("models", optimize_.inputs, "ONNX models, or folders of them")->required();
    add_output(command);
    add_opset(command)->required();
    add_verify_option(command, optimize_);
    command->add_flag("--json", optimize_.json, "Machine-readable output");
    command->add_flag("--quiet", optimize_.quiet, "Print errors only");
    command->callback([this] {
      optimize_.passes = "none";
      status_ = optimize(output_, optimize_);
    });
  }

  void add_coreml_optimize(CLI::App& to) {
    auto* command = to.add_subcommand("optimize", "Run Core ML's graph passes");
    command->add_option("models", coreml_.inputs, "Packages, model files, or folders of them")->required();
    command->add_flag("--no-mmap", coreml_.no_mmap, "Read files instead of mapping them");
    command->add_option("-o,--output", coreml_output_, "Output file or folder")->required();
    command->add_option("--passes,--preset", coreml_.passes, "Preset, comma-separated passes, or a file of passes")
        ->capture_default_str();
    command->add_option("--skip", coreml_.skip, "Passes (or pass/rule) to skip, separated by commas")->delimiter(',');
    command->add_option("--option", coreml_.options, "Set an option of one pass: pass.option=value");
    command->add_option("--image-input", coreml_.image_inputs,
                        "NAME:nhwc: move the channels of an image input to the front (image_input_preprocess)");
    command->add_option("--output-dtype", coreml_.output_dtypes,
                        "NAME=fp16: change the dtype of a result (update_output_dtypes)");
    command->add_option("--compute-precision", coreml_.compute_precision,
                        "fp16: end presets in half precision (add_fp16_cast, add_int16_cast)");
    command->add_option("--calibrate", coreml_.calibrate,
                        "Calibration inputs (.npz, NAME=FILE.npy, NAME=VALUE): add_fp16_cast keeps fp32 where they overflow");
    add_verify_option(command, coreml_);
    command->add_option("--explain", coreml_.explain, "Report why these passes skipped near matches")->delimiter(',');
    command->add_flag("--changes", coreml_.changes,
                      "Report what each pass changed: op counts, and which rule fired at which op");
    command->add_flag("--link-weights", coreml_.link_weights,
                      "Hard-link unchanged weight files of the input model instead of copying them");
    command->add_flag("--strict", coreml_.strict, "Stop when a pass fails, instead of skipping it");
    command->add_flag("--json", coreml_.json, "Machine-readable output");
    command->add_flag("--quiet", coreml_.quiet, "Print errors only");
    take_one_text_each(command);
    command->callback([this] { status_ = optimize_coreml(coreml_output_, coreml_); });
  }

  void add_half_report(CLI::App& to) {
    auto* command = to.add_subcommand("fp16-report", "Report the ops that half precision would break");
    command->add_option("model", half_.input, "Package or model file")->required();
    command->add_option("--calibrate", half_.runs, "Calibration inputs: .npz (one run each), NAME=FILE.npy, NAME=VALUE");
    command->add_option("--runs", half_.random_runs, "Number of runs on random inputs, without --calibrate")
        ->capture_default_str();
    command->add_option("--seed", half_.seed, "Seed of the random inputs")->check(kNoSign)->capture_default_str();
    command->add_flag("--no-mmap", half_.no_mmap, "Read files instead of mapping them");
    command->add_flag("--json", half_.json, "Machine-readable output");
    command->callback([this] { status_ = half_report(half_); });
  }

  void add_passes(CLI::App& to) {
    auto* command = to.add_subcommand("passes", "List passes and presets, or show one");
    command->add_option("name", pass_name_, "A pass or a preset");
    command->add_flag("--json", passes_json_, "Machine-readable output");
    command->callback([this] { status_ = passes(pass_name_, passes_json_); });
  }

  void add_run(CLI::App& to) {
    auto* command = to.add_subcommand("run", "Evaluate a model on the reference evaluator");
    add_input(command);
    command->add_option("-i,--input", run_.inputs, "NAME=FILE.npy, NAME=VALUE, or FILE.npz with arrays by name");
    command->add_option("-o,--output", run_.output,
                        "File for the results: .npz, or .npy for a single one (default: print them)");
    command->add_flag("--random", run_.random, "Generate missing inputs at random");
    command->add_option("--seed", run_.seed, "Seed of generated inputs and of random operators")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_option("--input-shape", run_.input_shapes, "Shape of a generated input: x=f32[2,3] or x:2,3");
    command->add_option("--memory", run_.memory, "Limit on live tensors in bytes (64M, 8G)")
        ->transform(CLI::AsSizeValue(false));
    command->add_flag("--fast", run_.fast, "Faster matrix products, whose last bits depend on the machine");
    command->callback([this] { status_ = tools::run(files_, run_); });
  }

  void add_lower(CLI::App& to) {
    to.add_option("--plugin", plugins_, "Shared object with lowerings (sardonyx/plugin.h), for `lower` and `export`");
    auto* command = to.add_subcommand("lower", "Convert a program in text form (.sx) to ONNX");
    command->add_option("program", files_.input, "Program of the jax or onnx dialect")->required();
    command->add_flag("--no-mmap", files_.no_mmap, "Read files instead of mapping them");
    add_output(command);
    command->add_option("--opset", opset_, "Opset of the result (default: 23, or the newest that the target loads)");
    command->add_option("--target", target_, "Runtime that must run the model, such as ort-1.17");
    command->callback([this] { status_ = lower(files_, output_, opset_, target_, plugins_); });
  }

  CLI::App app_{"Sardonyx: a native graph compiler for machine-learning models"};
  int status_ = 0;
  // Filled by the options.
  FileArgs files_;
  InfoArgs info_;
  DiffArgs diff_;
  VerifyArgs verify_;
  std::string view_output_;
  OutputArgs output_;
  OptimizeArgs optimize_, coreml_{.passes = "default"};
  std::string coreml_output_;
  HalfReportArgs half_;
  std::string pass_name_;
  bool passes_json_ = false;
  RunArgs run_;
  std::vector<std::string> plugins_;
  std::optional<int> opset_;
  std::string target_;
};

}  // namespace
}  // namespace sardonyx::tools

int main(int argc, char** argv) {
  using namespace sardonyx;
  try {
    return tools::CommandLine().execute(argc, argv);
  } catch (const Error& e) {
    tools::show_error(e);
    return e.code() == ErrorCode::kInvalidArgument ? tools::kUsage : tools::kRefused;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
  } catch (const std::exception& e) {
    tools::show_error(e);
  }
  return tools::kRefused;
}
